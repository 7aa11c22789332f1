"""Tables of notices, and of the calls that were announced."""

from typing import Final

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from checkpoints.enums import CallStatus
from checkpoints.models import ToolCall, Workspace
from checkpoints.models.translated_enum_choices import build_choices


class Event(models.TextChoices):
    """Events of notifications. The first two equal the statuses in which a call waits."""

    INTERRUPTED = CallStatus.INTERRUPTED.value, _("Outcome unknown")
    AWAITING_APPROVAL = CallStatus.AWAITING_APPROVAL.value, _("Awaiting approval or answer")
    REMINDER = "reminder", _("Deadline is near")
    ESCALATION = "escalation", _("Deadline has passed")
    HANDED_OVER = "handed_over", _("Handed over")
    MENTIONED = "mentioned", _("Mentioned in a comment")
    TEST = "test", _("Test")


#: Events about calls; a test is about none.
CALL_EVENTS: Final = tuple(event for event in Event if event is not Event.TEST)


class Notice(models.Model):
    """Notification about calls of one tool with the same event at about the same time.

    More calls are added until it is closed, when the first message about it is built. A hand-over and a comment that
    mentions members are about one call, and name who wrote the note or comment; a hand-over also names the colleague.
    """

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="+", db_index=False)
    event = models.CharField(max_length=20, choices=Event)
    tool = models.CharField(max_length=200, blank=True)
    #: Whether the calls have a high risk, by which recipients may choose.
    is_high_risk = models.BooleanField(default=False)
    created_at = models.DateTimeField(db_default=Now())
    #: Earliest time of sending, by the database's clock.
    send_at = models.DateTimeField()
    closed = models.BooleanField(default=False)
    author = models.CharField(max_length=150, blank=True)
    handed_to = models.CharField(max_length=150, blank=True)
    text = models.TextField(blank=True)

    class Meta:
        indexes = (models.Index(fields=["workspace", "event", "tool", "-id"], name="notice_newest"),)

    def __str__(self) -> str:
        return f"{self.event} of {self.tool or 'nothing'}"


class NoticedCall(models.Model):
    """Membership of a call in a notice. A call is notified once for each event and each status it waits in, and of each
    hand-over and comment.

    A row may outlive its call, because agents delete sessions without knowing this table.
    """

    notice = models.ForeignKey(Notice, on_delete=models.CASCADE, related_name="noticed")
    tool_call = models.ForeignKey(
        ToolCall, on_delete=models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False
    )
    event = models.CharField(max_length=20, choices=Event)
    status = models.CharField(max_length=20, choices=build_choices(CallStatus))

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["tool_call", "event", "status"],
                condition=~models.Q(event__in=[Event.HANDED_OVER, Event.MENTIONED]),
                name="call_told_once",
            ),
        )

    def __str__(self) -> str:
        return f"{self.event} of call {self.tool_call_id}"
