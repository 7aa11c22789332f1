"""Table of decisions about tool calls."""

from typing import ClassVar, Final

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from checkpoints.enums import DECIDING_KINDS, ActorKind, DecisionKind
from checkpoints.formats.canonical_json import decode_json_string_or_return_text, parse_json_or_return_text
from checkpoints.models.session import Session
from checkpoints.models.tool_calls_and_results import ToolCall
from checkpoints.models.translated_enum_choices import build_choices
from checkpoints.seals.decision_keys import SIGNATURE_SIZE
from checkpoints.seals.sealed_model import SealedModel

#: Key of the evidence of an edit for the arguments before it, as JSON text.
ARGS_BEFORE_EDIT: Final = "args_before"


class Decision(SealedModel):
    """Decision about a call, with its actor and reason. Appended, never changed.

    Bound to the revision and the arguments it was made on; the database lets one revision be decided once.
    `evidence` (`{"link": …, "text": …}`) and `result` are canonical JSON text, NULL if none was given.
    """

    #: Order of the decisions about one call. Whoever administers the database may let primary keys count backwards; the
    #: revision of the call, which each decision raises, is sealed and signed.
    IN_ORDER: ClassVar[tuple[str, ...]] = ("revision", "pk")

    counted_in_head = True
    sealed_fields = (
        "id",
        "session",
        "tool_call",
        "kind",
        "actor_kind",
        "actor",
        "reason",
        "evidence",
        "result",
        "final",
        "args_digest",
        "revision",
        "created_at",
    )
    unsealed_fields = {
        "row_seal": "the seal itself",
        "signed_terms": "the signature covers it",
        "signature": "a signature of the sealed columns, which only the site can make",
    }

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="decisions")
    tool_call = models.ForeignKey(ToolCall, on_delete=models.CASCADE, related_name="decisions")
    kind = models.CharField(max_length=20, choices=build_choices(DecisionKind))
    actor_kind = models.CharField(max_length=10, choices=build_choices(ActorKind))
    actor = models.CharField(max_length=255)
    reason = models.TextField(blank=True)
    evidence = models.TextField(null=True)  # noqa: DJ001
    result = models.TextField(null=True)  # noqa: DJ001
    #: False for the decision of one person if more have to agree.
    final = models.BooleanField(default=True)
    args_digest = models.CharField(max_length=64)
    revision = models.IntegerField()
    created_at = models.DateTimeField(db_default=Now())
    #: Terms of the decision, canonical JSON text, and the id of the site's key with its Ed25519 signature. NULL if the
    #: site has not signed it. See `checkpoints.calls.decision_signatures`.
    signed_terms = models.TextField(null=True)  # noqa: DJ001
    signature = models.BinaryField(max_length=SIGNATURE_SIZE, null=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["tool_call", "revision"],
                condition=Q(kind__in=sorted(DECIDING_KINDS)),
                name="one_decision_per_revision",
            ),
        )

    def __str__(self) -> str:
        return f"{self.kind} by {self.actor}"

    @property
    def has_given_evidence(self) -> bool:
        """Whether somebody gave evidence; the arguments before an edit, which are stored with it, are none."""
        stored = parse_json_or_return_text(self.evidence or "")
        return bool(stored.keys() - {ARGS_BEFORE_EDIT} if isinstance(stored, dict) else stored)

    @property
    def result_text(self) -> str | None:
        return None if self.result is None else decode_json_string_or_return_text(self.result)


def get_args_json_before_edit(evidence: str | None) -> str | None:
    """Return the arguments that an edit changed, as JSON text, from its evidence; None if that does not have them."""
    stored = parse_json_or_return_text(evidence or "")
    before = stored.get(ARGS_BEFORE_EDIT) if isinstance(stored, dict) else None
    return before if isinstance(before, str) else None
