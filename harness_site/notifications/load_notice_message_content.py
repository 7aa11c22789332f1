"""Content of a notification: a headline, and the pending calls with links to their cards.

Messages are read outside of the site, so the workspace's secrets are masked.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from checkpoints.enums import CallStatus
from checkpoints.models import ToolCall, Workspace
from checkpoints.models.translated_enum_choices import translate_label
from harness_site.accounts import load_masking_rules
from harness_site.core import formatting, masked_formatting, risk_effect_and_idempotency_texts, unknown_outcome_reasons
from harness_site.core.call_sentences import format_call_sentence
from harness_site.core.hidden_characters import format_on_one_line
from harness_site.core.masking import mask_argument_secrets_throughout_session, masker
from harness_site.core.masking.encrypted_names_in_urls import encrypt_name_if_masked
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden
from harness_site.notifications.models import Event, Notice
from harness_site.site_address import build_absolute_url

#: Maximum number of calls listed in a message.
MAX_LISTED_CALLS: Final = 20
_HEADLINES: Final = {
    Event.INTERRUPTED: (_("Needs a decision: {}"), _("{} calls of {} need a decision")),
    Event.AWAITING_APPROVAL: (_("Awaits approval: {}"), _("{} calls of {} await approval")),
    Event.REMINDER: (_("Due soon: {}"), _("{} calls of {} are due soon")),
    Event.ESCALATION: (
        _("Overdue, an admin has to decide: {}"),
        _("{} calls of {} are overdue: an admin has to decide"),
    ),
}
_QUESTION_HEADLINES: Final = (_("Awaits an answer: {}"), _("{} questions of agents await an answer"))
_QUESTION_EXPLANATION: Final = _("The agent waits until a person answers.")
#: Headlines of a hand-over: for the colleague, and for everybody else.
_HANDED_TO_READER: Final = _("{by} handed a call over to you: {sentence}")
_HANDED_OVER: Final = _("{by} handed a call over to {to}: {sentence}")
#: Headlines of a comment: for a member whom it mentions, and for webhooks.
_MENTIONS_READER: Final = _("{by} mentions you in a comment: {sentence}")
_MENTIONS_MEMBERS: Final = _("{by} mentions a colleague in a comment: {sentence}")
_EXPLANATIONS: Final = {
    Event.INTERRUPTED: _("The outcome of this call is unknown. The agent waits until a person decides."),
    Event.AWAITING_APPROVAL: _("The agent waits until a person approves or rejects this call."),
    Event.REMINDER: _("After the deadline, only an admin can decide."),
    Event.ESCALATION: _("The deadline has passed without a decision. Only an admin can decide now."),
    Event.HANDED_OVER: _("The agent waits until a person decides. The first decision recorded wins."),
    Event.MENTIONED: _("The page of the call has all comments. The agent does not read them."),
    Event.TEST: _("This is a test message. You do not have to do anything."),
}
_TABS: Final = {CallStatus.INTERRUPTED: "interrupted", CallStatus.AWAITING_APPROVAL: "awaiting"}


@dataclass(frozen=True)
class NoticeItem:
    """One call in a message. Every text is masked for all recipients."""

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
class NoticeMessage:
    """Message about a notice; `items` are the first of `count` calls that still wait.

    A hand-over has the colleague `handed_to`, and the `text` of the note with its `author`; a comment has the last two.
    All three are empty for other events.
    """

    event: Event
    workspace: str
    tool: str
    headline: str
    explanation: str
    link: str
    count: int
    items: tuple[NoticeItem, ...]
    author: str = ""
    handed_to: str = ""
    text: str = ""

    @property
    def omitted_count(self) -> int:
        return self.count - len(self.items)


def load_and_build_notice_message(notice: Notice, *, to_person: bool = False) -> NoticeMessage | None:
    """Build the current message of a notice; None if every call has been decided, or for a comment deleted.

    `to_person` addresses a person and not a webhook.
    """
    event = Event(notice.event)
    with masker.use_masking_rules(load_masking_rules.load_workspace_masking_rules(notice.workspace)):
        if event is Event.TEST:
            return _build_message_of_items(
                notice,
                gettext("Test message"),
                [],
                0,
                _build_page_url_entering_workspace(reverse("harness_review:review"), notice.workspace),
            )
        calls, count = _load_first_waiting_calls_and_count(notice)
        if not calls:
            return None
        about_questions = event is Event.AWAITING_APPROVAL and all(call.is_question for call in calls)
        items, text = [], ""
        secrets = mask_argument_secrets_throughout_session.load_known_secrets_of_sessions(
            {call.session_id for call in calls}
        )
        for call in calls:
            values = secrets.get(call.session_id, ())
            with (
                masker.use_masking_rules_with_extra_values(values),
                masker.mask_values_of_secret_fields_in_context(masked_formatting.parse_json_or_text(call.args)),
            ):
                items.append(_build_notice_item(call, notice.workspace))
                # A hand-over and a comment are about one call.
                text = _mask_and_format_on_one_line(notice.text)
        return _build_message_of_items(
            notice,
            _build_headline(notice, items, count, about_questions=about_questions, to_person=to_person),
            items,
            count,
            _get_link_of_single_call(event, items[0])
            if count == 1
            else _build_queue_url_filtered_by_tool(calls[0], notice.workspace),
            explanation=str(_QUESTION_EXPLANATION) if about_questions else "",
            text=text,
        )


def _build_headline(
    notice: Notice, items: list[NoticeItem], count: int, *, about_questions: bool, to_person: bool
) -> str:
    if notice.event == Event.HANDED_OVER:
        template = _HANDED_TO_READER if to_person else _HANDED_OVER
        by, to = _mask_and_format_on_one_line(notice.author), _mask_and_format_on_one_line(notice.handed_to)
        return template.format(by=by, to=to, sentence=items[0].sentence)
    if notice.event == Event.MENTIONED:
        template = _MENTIONS_READER if to_person else _MENTIONS_MEMBERS
        return template.format(by=_mask_and_format_on_one_line(notice.author), sentence=items[0].sentence)
    singular, plural = _QUESTION_HEADLINES if about_questions else _HEADLINES[Event(notice.event)]
    return (
        singular.format(items[0].sentence)
        if count == 1
        else plural.format(formatting.format_number(count), _mask_and_format_on_one_line(notice.tool))
    )


def _format_unusual_risk_or_empty(call: ToolCall) -> str:
    risk = risk_effect_and_idempotency_texts.find_unusual_risk(call)
    return str(translate_label(risk)) if risk else ""


def _mask_and_format_on_one_line(text: str) -> str:
    """Mask a text and escape hidden characters and line breaks, so that it cannot start a line of its own."""
    return format_on_one_line(mask_and_reveal_hidden(text))


def _build_message_of_items(
    notice: Notice,
    headline: str,
    items: list[NoticeItem],
    count: int,
    link: str,
    *,
    explanation: str = "",
    text: str = "",
) -> NoticeMessage:
    event = Event(notice.event)
    workspace, tool = _mask_and_format_on_one_line(notice.workspace.name), _mask_and_format_on_one_line(notice.tool)
    return NoticeMessage(
        event,
        workspace,
        tool,
        headline,
        explanation or str(_EXPLANATIONS[event]),
        link,
        count,
        tuple(items),
        _mask_and_format_on_one_line(notice.author),
        _mask_and_format_on_one_line(notice.handed_to),
        text,
    )


def _load_first_waiting_calls_and_count(notice: Notice) -> tuple[list[ToolCall], int]:
    """Return the first calls of a notice that still wait in the same status, and their number.

    A comment is about its call before and after the decision.
    """
    calls = ToolCall.objects.filter(pk__in=notice.noticed.values("tool_call_id")).order_by("pk")
    if notice.event != Event.MENTIONED:
        calls = calls.filter(status__in=notice.noticed.values("status"))
    return list(calls.select_related("session", "run")[:MAX_LISTED_CALLS]), calls.count()


def _get_link_of_single_call(event: Event, item: NoticeItem) -> str:
    return f"{item.link}#comments" if event is Event.MENTIONED else item.link


def _build_page_url_entering_workspace(path: str, workspace: Workspace) -> str:
    """Build a link to a page; with several workspaces, one that also switches to this workspace."""
    if Workspace.objects.exclude(pk=workspace.pk).exists():
        return build_absolute_url(
            reverse("harness_accounts:enter-workspace", args=[workspace.slug, path.removeprefix("/")])
        )
    return build_absolute_url(path)


def _build_queue_url_filtered_by_tool(call: ToolCall, workspace: Workspace) -> str:
    query = urlencode({"tab": _TABS[CallStatus(call.status)], "tool": encrypt_name_if_masked(call.tool)})
    return f"{_build_page_url_entering_workspace(reverse('harness_review:review'), workspace)}?{query}"


def _build_notice_item(call: ToolCall, workspace: Workspace) -> NoticeItem:
    agent, session_id, tool = (
        _mask_and_format_on_one_line(call.session.agent),
        _mask_and_format_on_one_line(call.session.session_id),
        _mask_and_format_on_one_line(call.tool),
    )
    interrupted = call.status == CallStatus.INTERRUPTED
    facts = [
        "" if call.is_question else tool,
        gettext("agent %(name)s") % {"name": agent} if agent else "",
        gettext("session %(id)s") % {"id": session_id},
        _format_unusual_risk_or_empty(call),
    ]
    if interrupted:
        facts.append(unknown_outcome_reasons.format_unknown_outcome_reason(call.reason, verifiable=call.verifiable))
    return NoticeItem(
        call=call.pk,
        call_id=_mask_and_format_on_one_line(call.call_id),
        session_id=session_id,
        agent=agent,
        tool=tool,
        status=call.status,
        sentence=_mask_and_format_on_one_line(format_call_sentence(call)),
        facts=" · ".join(filter(None, facts)),
        since=call.interrupted_at if interrupted else call.issued_at,
        deadline=call.deadline,
        link=_build_page_url_entering_workspace(reverse("harness_review:card", args=[call.pk]), workspace),
    )
