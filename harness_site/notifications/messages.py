"""What a notice says: one headline, and each call that still waits with a link to its card.

Nobody is signed in where a message is read, so whatever is secret in its workspace is masked in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from urllib.parse import urlencode

from django.conf import settings
from django.urls import reverse

from checkpoints.enums import CallStatus
from checkpoints.models import ToolCall, Workspace
from harness_site import wording
from harness_site.accounts import call_secrets, secrecy
from harness_site.notifications.models import Event, Notice
from harness_site.rendering import masking
from harness_site.rendering.references import reference
from harness_site.rendering.safe_text import one_line
from harness_site.rendering.text import visible
from harness_site.templatetags.harness import sentence

#: Calls that a message lists; of more, it says how many there are.
LISTED: Final = 20
_HEADLINES: Final = {
    Event.INTERRUPTED: ("Needs a decision: {}", "{} calls of {} need a decision"),
    Event.AWAITING_APPROVAL: ("Awaits approval: {}", "{} calls of {} await approval"),
    Event.REMINDER: ("Due soon: {}", "{} calls of {} are due soon"),
    Event.ESCALATION: ("Overdue, an admin has to decide: {}", "{} calls of {} are overdue: an admin has to decide"),
}
_EXPLANATIONS: Final = {
    Event.INTERRUPTED: "Nobody knows whether this call happened. The agent waits until a person decides.",
    Event.AWAITING_APPROVAL: "The agent waits until a person approves or rejects this call.",
    Event.REMINDER: "After the deadline, only an admin can decide.",
    Event.ESCALATION: "The deadline has passed without a decision. Only an admin can decide now.",
    Event.TEST: "This is a test message. Nothing happened, and nothing waits for you.",
}
_TABS: Final = {CallStatus.INTERRUPTED: "interrupted", CallStatus.AWAITING_APPROVAL: "awaiting"}


@dataclass(frozen=True)
class Item:
    """One call. Every text may be shown as it is, to whoever gets the message."""

    call: int
    call_id: str
    session_id: str
    agent: str
    tool: str
    status: str
    sentence: str
    facts: str
    since: datetime | None
    deadline: datetime | None
    link: str


@dataclass(frozen=True)
class Message:
    """`items` are the first calls of `count` that still wait."""

    event: Event
    workspace: str
    tool: str
    headline: str
    explanation: str
    link: str
    count: int
    items: tuple[Item, ...]

    @property
    def more(self) -> int:
        return self.count - len(self.items)


def message(notice: Notice) -> Message | None:
    """What there is to say about a notice now; None where every call was decided meanwhile."""
    event = Event(notice.event)
    with masking.reading(secrecy.rules_of(notice.workspace)):
        if event is Event.TEST:
            return _message(notice, "A test message", [], 0, _there(reverse("review"), notice.workspace))
        calls, count = _waiting(notice)
        if not calls:
            return None
        one, many = _HEADLINES[event]
        items = []
        secrets = call_secrets.of_sessions({call.session_id for call in calls})
        for call in calls:
            values = secrets.get(call.session_id, ())
            with masking.hiding_values(values), masking.hiding_values_of(wording.parsed(call.args)):
                items.append(_item(call, notice.workspace))
        tool = _line(notice.tool)
        headline = one.format(items[0].sentence) if count == 1 else many.format(count, tool)
        return _message(
            notice, headline, items, count, items[0].link if count == 1 else _list(calls[0], notice.workspace)
        )


def _line(text: str) -> str:
    """Masked, with what hides named, and without a line break: it cannot begin a line of the message's own."""
    return one_line(visible(text))


def link(path: str) -> str:
    """An address that can be opened from anywhere."""
    return f"{settings.SITE_ADDRESS}{path}"


def _message(notice: Notice, headline: str, items: list[Item], count: int, where: str) -> Message:
    event = Event(notice.event)
    workspace, tool = _line(notice.workspace.name), _line(notice.tool)
    return Message(event, workspace, tool, headline, _EXPLANATIONS[event], where, count, tuple(items))


def _waiting(notice: Notice) -> tuple[list[ToolCall], int]:
    """The first calls of a notice that still wait as they did when it was made, and how many there are."""
    told = notice.noticed.values("tool_call_id")
    calls = ToolCall.objects.filter(pk__in=told, status__in=notice.noticed.values("status")).order_by("pk")
    return list(calls.select_related("session", "run")[:LISTED]), calls.count()


def _there(path: str, workspace: Workspace) -> str:
    """A link that also says in which workspace, where there are several: whoever opens it may be in another one."""
    if Workspace.objects.exclude(pk=workspace.pk).exists():
        return link(reverse("enter-workspace", args=[workspace.slug, path.removeprefix("/")]))
    return link(path)


def _list(call: ToolCall, workspace: Workspace) -> str:
    query = urlencode({"tab": _TABS[CallStatus(call.status)], "tool": reference(call.tool)})
    return f"{_there(reverse('review'), workspace)}?{query}"


def _item(call: ToolCall, workspace: Workspace) -> Item:
    agent, session_id, tool = _line(call.session.agent), _line(call.session.session_id), _line(call.tool)
    interrupted = call.status == CallStatus.INTERRUPTED
    facts = [tool, agent, f"session {session_id}"]
    if interrupted:
        facts.append(wording.why(call.reason, verifiable=call.verifiable))
    return Item(
        call=call.pk,
        call_id=_line(call.call_id),
        session_id=session_id,
        agent=agent,
        tool=tool,
        status=call.status,
        sentence=_line(sentence(call)),
        facts=" · ".join(filter(None, facts)),
        since=call.interrupted_at if interrupted else call.issued_at,
        deadline=call.deadline,
        link=_there(reverse("card", args=[call.pk]), workspace),
    )
