from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models.functions import Now


class Thread(models.Model):
    version = models.BigIntegerField(default=0)
    length = models.IntegerField(default=0)
    updated_at = models.DateTimeField(db_default=Now())

    objects: ClassVar[models.Manager[Thread]] = models.Manager()

    def __str__(self) -> str:
        return f"thread {self.pk}"


class Entry(models.Model):
    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, db_index=False)
    position = models.IntegerField()
    role = models.CharField(max_length=32)
    body = models.TextField()

    objects: ClassVar[models.Manager[Entry]] = models.Manager()

    class Meta:
        constraints = (models.UniqueConstraint(fields=["thread", "position"], name="entry_place"),)

    def __str__(self) -> str:
        return f"entry {self.position}"


class Version(models.Model):
    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, db_index=False)
    number = models.BigIntegerField()
    length = models.IntegerField()
    plan = models.TextField()
    budget_spent_usd = models.CharField(max_length=64)
    created_at = models.DateTimeField(db_default=Now())

    objects: ClassVar[models.Manager[Version]] = models.Manager()

    class Meta:
        constraints = (models.UniqueConstraint(fields=["thread", "number"], name="version_number"),)

    def __str__(self) -> str:
        return f"version {self.number}"


class Call(models.Model):
    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, db_index=False)
    call_id = models.CharField(max_length=255)
    tool = models.CharField(max_length=200)
    args = models.TextField()
    key = models.CharField(max_length=255)
    status = models.CharField(max_length=20)
    result = models.TextField(default="")
    issued_at = models.DateTimeField(db_default=Now())

    objects: ClassVar[models.Manager[Call]] = models.Manager()

    class Meta:
        constraints = (models.UniqueConstraint(fields=["thread", "key"], name="call_key"),)

    def __str__(self) -> str:
        return f"call {self.call_id}"
