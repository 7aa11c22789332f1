"""Tables of calls to other agents, and of responses that arrive before their call is stored."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from checkpoints.enums import NoticeKind, PeerCallStatus
from checkpoints.models.pauses_for_other_agents import Join
from checkpoints.models.session import Session
from checkpoints.models.translated_enum_choices import build_choices
from checkpoints.models.workspace import Workspace
from checkpoints.seals.sealed_model import SealedModel


class PeerCall(SealedModel):
    """One request to another agent, and its response. Settled once, never deleted before its session.

    `deadline` is by the database's clock. `request` and the results are canonical JSON text; secrets in the request are
    sealed. `receipt` names the attempt that settled the call, so that its writer can recognise it.
    """

    counted_in_head = True
    sealed_fields = (
        "workspace",
        "session",
        "join",
        "call_id",
        "peer",
        "request",
        "token_digest",
        "status",
        "created_at",
        "deadline",
        "settled_at",
        "result",
        "receipt",
        "late_result",
        "late_at",
    )
    unsealed_fields = {
        "id": "chosen by the database at the insert; what a row is called is sealed",
        "notice": "the outbox of notices to the other agent",
        "tell_after": "the outbox of notices to the other agent",
        "tell_attempts": "the outbox of notices to the other agent",
        "row_seal": "the seal itself",
    }

    workspace = models.ForeignKey(Workspace, on_delete=models.PROTECT, related_name="+", db_index=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="peer_calls", db_index=False)
    join = models.ForeignKey(Join, on_delete=models.CASCADE, related_name="calls")
    call_id = models.CharField(max_length=255)
    peer = models.CharField(max_length=255)
    request = models.TextField()
    #: Hex digest of the secret that a response has to bring; empty if none is required.
    token_digest = models.CharField(max_length=64, blank=True)

    status = models.CharField(max_length=10, choices=build_choices(PeerCallStatus), default=PeerCallStatus.WAITING)
    created_at = models.DateTimeField(db_default=Now())
    deadline = models.DateTimeField()
    settled_at = models.DateTimeField(null=True)
    result = models.TextField(null=True)  # noqa: DJ001 - canonical JSON; NULL says that there is none
    receipt = models.CharField(max_length=32, blank=True)
    #: First response after the call expired: evidence, not a result.
    late_result = models.TextField(null=True)  # noqa: DJ001
    late_at = models.DateTimeField(null=True)

    #: Notice that the other agent still has to get, when it is due, and the number of attempts.
    notice = models.CharField(max_length=10, choices=build_choices(NoticeKind), blank=True)
    tell_after = models.DateTimeField(null=True)
    tell_attempts = models.IntegerField(default=0, db_default=0)

    class Meta:
        constraints = (models.UniqueConstraint(fields=["workspace", "call_id"], name="peer_call_per_workspace"),)
        indexes = (
            models.Index(fields=["session"], name="peer_call_of_session"),
            models.Index(
                fields=["workspace", "deadline"], condition=Q(status=PeerCallStatus.WAITING), name="peer_call_waiting"
            ),
            models.Index(fields=["workspace", "tell_after"], condition=~Q(notice=""), name="peer_call_notice"),
        )

    def __str__(self) -> str:
        return f"{self.peer} ({self.call_id})"


class EarlyResponse(SealedModel):
    """Response that came before the pause that names its call. The pause adopts it; otherwise the sweeper deletes
    it."""

    sealed_fields = ("workspace", "call_id", "peer", "token_digest", "result", "digest", "received_at")
    unsealed_fields = {
        "id": "chosen by the database at the insert; what a row is called is sealed",
        "row_seal": "the seal itself",
    }

    workspace = models.ForeignKey(Workspace, on_delete=models.PROTECT, related_name="+", db_index=False)
    call_id = models.CharField(max_length=255)
    peer = models.CharField(max_length=255, blank=True)
    token_digest = models.CharField(max_length=64, blank=True)
    result = models.TextField()
    #: Digest of all fields above, so that a redelivered response is stored once.
    digest = models.CharField(max_length=64)
    received_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = (models.UniqueConstraint(fields=["workspace", "call_id", "digest"], name="early_response_once"),)
        indexes = (models.Index(fields=["received_at"], name="early_response_age"),)

    def __str__(self) -> str:
        return f"early response to {self.call_id}"
