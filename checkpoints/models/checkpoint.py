"""Table of the saved versions of sessions."""

from django.db import models
from django.db.models.functions import Now

from checkpoints.enums import Phase
from checkpoints.models.run import Run
from checkpoints.models.segment_and_message import Segment
from checkpoints.models.session import Session
from checkpoints.models.translated_enum_choices import build_choices
from checkpoints.seals.sealed_model import SealedModel


class Checkpoint(SealedModel):
    """One version of a session: never overwritten, its number never reused.

    `plan`, `usage` and `payload` are canonical JSON text; NULL means that nothing was given, which is not the
    same as an empty object. `budget_spent_usd` keeps the number exactly as it was given: a JSON number, or a
    JSON string for a `Decimal`.
    """

    counted_in_head = True
    sealed_fields = (
        "session",
        "version",
        "run",
        "phase",
        "segment",
        "length",
        "chain",
        "plan",
        "budget_spent_usd",
        "usage",
        "payload",
        "schema_version",
        "created_at",
    )
    unsealed_fields = {
        "id": "chosen by the database at the insert; what a row is called is sealed",
        "row_seal": "the seal itself",
    }

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="checkpoints", db_index=False)
    version = models.BigIntegerField()
    #: NULL: appended by a client that did not own the session, while no run had it.
    run = models.ForeignKey(Run, on_delete=models.CASCADE, null=True, related_name="checkpoints", db_index=False)
    phase = models.CharField(max_length=20, choices=build_choices(Phase), default=Phase.TURN)
    segment = models.ForeignKey(Segment, on_delete=models.PROTECT, related_name="checkpoints", db_index=False)
    length = models.IntegerField()
    chain = models.BinaryField(max_length=32)
    plan = models.TextField(null=True)  # noqa: DJ001
    budget_spent_usd = models.CharField(max_length=64)
    usage = models.TextField(null=True)  # noqa: DJ001
    payload = models.TextField(null=True)  # noqa: DJ001
    schema_version = models.SmallIntegerField()
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = (models.UniqueConstraint(fields=["session", "version"], name="version_per_session"),)

    def __str__(self) -> str:
        return f"version {self.version}"
