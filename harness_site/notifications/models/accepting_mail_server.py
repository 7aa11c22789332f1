"""Mail servers that accepted a message of this installation at least once: one row for each, never updated."""

from django.db import models
from django.db.models.functions import Now


class AcceptingMailServer(models.Model):
    """First acceptance of a message of this installation by a mail server; whether the server still accepts is
    unknown."""

    #: Host and port.
    address = models.CharField(max_length=300, unique=True)
    accepted_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return self.address
