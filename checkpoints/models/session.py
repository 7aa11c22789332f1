"""Table of sessions."""

import uuid
from typing import Any

from django.db import models
from django.db.models.functions import Now

from checkpoints.enums import FINISHED_SESSION_STATUSES, CostBasis, SessionStatus
from checkpoints.formats import parse_json
from checkpoints.models.translated_enum_choices import build_choices
from checkpoints.models.workspace import Workspace
from checkpoints.seals.sealed_model import SealedModel

_IS_ACTIVE = models.Q(status=SessionStatus.ACTIVE)
_HAS_UNKNOWN_COST = models.Q(cost_basis=CostBasis.UNKNOWN)


def generate_key_space() -> str:
    return uuid.uuid4().hex


def deserialize_labels(label_text: str) -> tuple[str, ...]:
    """Parse the labels of a session from its column."""
    try:
        labels: Any = parse_json(label_text)
    except (TypeError, ValueError, RecursionError):
        return ()
    return tuple(label for label in labels if isinstance(label, str)) if isinstance(labels, list) else ()


class Session(SealedModel):
    """Identity and summary of one agent session.

    The counters (`latest_version`, `message_count`, totals) change in the transaction that writes what they
    count. `fence` grows with every change of owner; each write of a run names the fence it was given.
    `revision` grows with every change that a page could show.
    """

    sealed_fields = (
        "id",
        "workspace",
        "session_id",
        "key_space",
        "status",
        "result",
        "gate_opened_at",
        "latest_version",
        "newest_seal",
        "head_number",
        "row_sum",
    )
    stable_sealed_fields = 7
    unsealed_fields = {
        "agent": "a headline for lists",
        "title": "a headline for lists",
        "metadata": "a description",
        "labels": "people change them",
        "scratchpad_root": "a description",
        "head_segment": "the newest version names its segment",
        "head_chain": "the newest version has it",
        "message_count": "the newest version has it",
        "budget_spent_usd": "the newest version has it",
        "total_tokens": "the newest version has it",
        "cost_basis": "a headline for lists",
        "parent_session_id": "a headline for lists",
        "has_times": "a headline for lists",
        "fence": "ownership, which is no record",
        "owner": "ownership, which is no record",
        "forked_from": "emptied when the origin is deleted",
        "forked_version": "emptied when the origin is deleted",
        "quarantined_at": "marks a session whose sealed columns may be altered; a resume verifies them anyway",
        "quarantine": "names what was found then",
        "revision": "tells pages that something has changed",
        "created_at": "a headline for lists",
        "updated_at": "tells pages that something has changed",
        "row_seal": "the seal itself",
    }

    workspace = models.ForeignKey(Workspace, on_delete=models.PROTECT, related_name="sessions", db_index=False)
    session_id = models.CharField(max_length=255)
    agent = models.CharField(max_length=200, blank=True)
    title = models.TextField(blank=True)
    status = models.CharField(max_length=20, choices=build_choices(SessionStatus), default=SessionStatus.ACTIVE)
    result = models.TextField(null=True)  # noqa: DJ001 - canonical JSON; NULL says that there is none yet
    metadata = models.TextField(default="{}")
    labels = models.TextField(default="[]")
    scratchpad_root = models.TextField(blank=True)

    #: Last version number assigned. Numbers only grow, also when checkpoints are deleted.
    latest_version = models.BigIntegerField(default=0, db_default=0)
    head_segment = models.ForeignKey("Segment", on_delete=models.PROTECT, null=True, related_name="+", db_index=False)
    head_chain = models.BinaryField(max_length=32, default=bytes)
    message_count = models.IntegerField(default=0, db_default=0)
    budget_spent_usd = models.DecimalField(max_digits=18, decimal_places=6, default=0)
    total_tokens = models.BigIntegerField(default=0, db_default=0)
    #: Source of `budget_spent_usd`. It is unknown until a save states an amount; then the amount is 0 and says nothing.
    cost_basis = models.CharField(
        max_length=10, choices=build_choices(CostBasis), default=CostBasis.UNKNOWN, db_default=CostBasis.UNKNOWN
    )

    #: Session id of the agent that started this one as its subagent; empty if none did. The parent may be missing.
    parent_session_id = models.CharField(max_length=255, blank=True, default="", db_default="")
    #: False if the source of an imported session has no times: those stored are of its file, and count nowhere.
    has_times = models.BooleanField(default=True, db_default=True)

    fence = models.BigIntegerField(default=0, db_default=0)
    owner = models.ForeignKey("Run", on_delete=models.SET_NULL, null=True, related_name="+", db_index=False)
    #: Last time a run passed the gate: it has used every decision that is older.
    gate_opened_at = models.DateTimeField(null=True)
    #: Part of the idempotency keys of this session's calls. A fork shares its origin's, so that an effect of the
    #: origin is recognised in the fork.
    key_space = models.CharField(max_length=32, default=generate_key_space, editable=False)
    forked_from = models.ForeignKey("self", on_delete=models.SET_NULL, null=True, related_name="forks")
    forked_version = models.BigIntegerField(null=True)

    #: Head of the session, if sealing is on: the seal of its newest version, the number of its last write, and the
    #: masked sum of its rows. See `checkpoints.seals.session_heads`.
    newest_seal = models.BinaryField(max_length=32, null=True)
    head_number = models.BigIntegerField(default=0, db_default=0)
    row_sum = models.BinaryField(max_length=48, null=True)

    #: Time at which a row was found that this library did not write, and a JSON list of such rows. Nothing of the
    #: session runs until it is released.
    quarantined_at = models.DateTimeField(null=True)
    quarantine = models.TextField(blank=True, default="", db_default="")

    revision = models.BigIntegerField(default=0, db_default=0)
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = (models.UniqueConstraint(fields=["workspace", "session_id"], name="session_id_per_workspace"),)
        indexes = (
            models.Index(fields=["workspace", "-created_at", "-id"], name="session_newest"),
            # A save updates the indexes of the columns that it changes: of an active session only these two, of which
            # the second is small.
            models.Index(fields=["workspace", "-updated_at", "-id"], name="session_latest"),
            models.Index(
                fields=["workspace", "-budget_spent_usd", "-id"], condition=_IS_ACTIVE, name="session_active_costliest"
            ),
            models.Index(fields=["workspace", "agent"], condition=_IS_ACTIVE, name="session_active"),
            # A run that saves owns its session, so its saves do not change this index.
            models.Index(
                fields=["workspace", "-updated_at", "-id"],
                condition=_IS_ACTIVE & models.Q(owner=None),
                name="session_unowned",
            ),
            models.Index(
                fields=["workspace", "status", "-updated_at", "-id"], condition=~_IS_ACTIVE, name="session_of_status"
            ),
            # The last two columns let a list of one agent's sessions above a cost be read from the index alone. Without
            # them, PostgreSQL joins the sessions of a label and a tool first, which are many more.
            models.Index(
                fields=["workspace", "agent", "-updated_at", "-id", "budget_spent_usd", "has_times"],
                condition=~_IS_ACTIVE,
                name="session_of_agent",
            ),
            models.Index(
                fields=["workspace", "parent_session_id"],
                condition=~models.Q(parent_session_id=""),
                name="session_of_parent",
            ),
            # Lists by cost end with the sessions of unknown cost, which may be many and have the amount 0.
            models.Index(
                fields=["workspace", "-budget_spent_usd", "-id"],
                condition=~_IS_ACTIVE & ~_HAS_UNKNOWN_COST,
                name="session_costliest",
            ),
            models.Index(
                fields=["workspace", "-budget_spent_usd", "-id"],
                condition=~_IS_ACTIVE & _HAS_UNKNOWN_COST,
                name="session_unpriced",
            ),
            models.Index(
                fields=["workspace", "-updated_at", "-id"],
                condition=models.Q(quarantined_at__isnull=False),
                name="session_quarantined",
            ),
        )

    def __str__(self) -> str:
        return self.session_id

    @property
    def finished(self) -> bool:
        return self.status in FINISHED_SESSION_STATUSES
