"""Table of the events of the audit log, and of the ends of their chains."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from checkpoints.enums import ActorKind, AuditKind
from checkpoints.models.session import Session
from checkpoints.models.translated_enum_choices import build_choices
from checkpoints.models.workspace import Workspace
from checkpoints.seals.sealed_model import SealedModel


class AuditEvent(SealedModel):
    """Recorded action of a person or a machine: lifecycle, ownership, decisions, access. Appended, never changed.

    `details` is canonical JSON text: ids, numbers and names, never the text of a transcript or a result. An event
    outlives its session, so `session` may name one that was deleted.

    An event is written without a number in the chain of its workspace, in the transaction of the change that it
    records.
    Sealing gives it `number` (from 1, without gaps) and `seal`, the hex digest over its content and the seal before.
    """

    sealed_fields = (
        "workspace",
        "session",
        "kind",
        "actor_kind",
        "actor",
        "details",
        "created_at",
    )
    unsealed_fields = {
        "id": "chosen by the database at the insert; what a row is called is sealed",
        "number": "assigned later, and covered by the hash chain",
        "seal": "the link of the hash chain",
        "row_seal": "the seal itself",
    }

    workspace = models.ForeignKey(Workspace, on_delete=models.PROTECT, related_name="+", db_index=False)
    session = models.ForeignKey(
        Session, on_delete=models.DO_NOTHING, null=True, related_name="audit_events", db_constraint=False
    )
    kind = models.CharField(max_length=24, choices=build_choices(AuditKind))
    actor_kind = models.CharField(max_length=10, choices=build_choices(ActorKind))
    actor = models.CharField(max_length=255)
    details = models.TextField(default="{}")
    created_at = models.DateTimeField(db_default=Now())
    number = models.BigIntegerField(null=True)
    seal = models.CharField(max_length=64, blank=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=["workspace", "number"], name="audit_number_per_workspace"),)
        indexes = (
            models.Index(fields=["workspace", "id"], name="audit_newest"),
            models.Index(fields=["workspace", "id"], condition=Q(number=None), name="audit_unsealed"),
        )

    def __str__(self) -> str:
        return f"{self.kind} by {self.actor}"


class AuditChain(SealedModel):
    """End of a workspace's chain, and the result of the last verification. Its row is the lock of sealing.

    The seal says that `verify_audit` has written the result, but not that it is the newest one. There is none before
    the first verification.
    """

    sealed_fields = ("workspace", "verified_at", "verified_number", "problem")
    unsealed_fields = {
        "number": "a verification compares it with the entries",
        "seal": "the last link of the hash chain",
        "row_seal": "the seal itself",
    }

    workspace = models.OneToOneField(Workspace, on_delete=models.PROTECT, primary_key=True, related_name="+")
    number = models.BigIntegerField(default=0, db_default=0)
    seal = models.CharField(max_length=64, blank=True)
    verified_at = models.DateTimeField(null=True)
    verified_number = models.BigIntegerField(default=0, db_default=0)
    #: Flaw found then, as a sentence; empty if there was none.
    problem = models.TextField(blank=True)

    @property
    def has_verdict(self) -> bool:
        """Whether the row says anything about a verification."""
        return self.verified_at is not None or bool(self.problem)

    def __str__(self) -> str:
        return f"audit chain up to {self.number}"
