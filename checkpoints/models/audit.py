from django.db import models
from django.db.models.functions import Now

from checkpoints.enums import ActorKind, AuditKind
from checkpoints.models.session import Session
from checkpoints.models.workspace import Workspace


class AuditEvent(models.Model):
    """Something a person or a machine did: lifecycle, ownership, decisions. Appended, never changed.

    `details` is canonical JSON text: ids, numbers and names, never the text of a transcript or a result.
    """

    workspace = models.ForeignKey(Workspace, on_delete=models.PROTECT, related_name="+")
    session = models.ForeignKey(Session, on_delete=models.CASCADE, null=True, related_name="audit_events")
    kind = models.CharField(max_length=24, choices=AuditKind)
    actor_kind = models.CharField(max_length=10, choices=ActorKind)
    actor = models.CharField(max_length=255)
    details = models.TextField(default="{}")
    created_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"{self.kind} by {self.actor}"
