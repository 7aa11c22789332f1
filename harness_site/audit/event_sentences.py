"""Audit entries in one sentence: who did what to which session, and to which call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from string import Formatter
from typing import Any, Final

from django.urls import reverse
from django.utils.functional import Promise
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from checkpoints.enums import (
    DECIDING_KINDS,
    ActorKind,
    AuditKind,
    CallStatus,
    DecisionKind,
    InterruptReason,
    SessionStatus,
)
from checkpoints.models.translated_enum_choices import translate_label
from harness_site.accounts.models import Invitation
from harness_site.audit.audit_trail_query import AuditEntry
from harness_site.audit.calls_of_audit_entries import AuditedCall
from harness_site.audit.folded_entry_pages import EntryRow
from harness_site.audit.format_event_details_and_actors import mask_and_format_actor, mask_and_format_detail_value
from harness_site.core.formatting import format_number
from harness_site.core.masked_formatting import mask_and_shorten_to_one_line
from harness_site.core.rendering.fast_format_html import build_html
from harness_site.core.rendering.text_shortening import shorten_text_in_middle
from harness_site.core.status_and_decision_labels import get_decision_shape_and_label, get_status_shape_and_label

#: Kind → sentences. The first one of which all values are known is used.
_SENTENCES: Final[dict[str, tuple[Promise, ...]]] = {
    AuditKind.SESSION_STARTED: (_("{actor} started {session}"),),
    AuditKind.SESSION_FINISHED: (_("{actor} finished {session}"),),
    AuditKind.SESSION_FORKED: (
        _("{actor} forked {original} at v{version} into {fork}"),
        _("{actor} forked {session}"),
    ),
    AuditKind.SESSION_IMPORTED: (
        _("The cost of {session} was estimated from the price table {prices}"),
        _("{actor} imported {session}"),
    ),
    AuditKind.SESSION_NEEDS_REVIEW: (_("{session} was paused for a decision"),),
    AuditKind.APPROVAL_REQUESTED: (
        _("{actor} asked for the approval of {call} in {session}"),
        _("{actor} asked for an approval in {session}"),
    ),
    AuditKind.SESSION_READY: (_("All calls of {session} are decided: it can continue"),),
    AuditKind.RUN_STARTED: (_("{actor} started in {session}"),),
    AuditKind.RUN_RELEASED: (_("{actor} released {session}"),),
    AuditKind.RUN_LOST: (_("{actor} was lost in {session}"),),
    AuditKind.VERSIONS_REMOVED: (_("{actor} removed old versions of {session}"),),
    AuditKind.SESSION_DELETED: (_("{actor} deleted {session}"),),
    AuditKind.TAKEOVER: (_("{session} was taken over from {actor}"),),
    AuditKind.SESSION_SEALED: (_("{actor} sealed the stored rows of {session}"),),
    AuditKind.DECISIONS_SIGNED: (_("{actor} signed the stored decisions of {session}"),),
    AuditKind.SESSION_QUARANTINED: (_("{session} was quarantined: its data are not as they were written"),),
    AuditKind.WITNESS_ADOPTED: (_("{actor} declared the stored state of {session} to be the newest one"),),
    AuditKind.QUARANTINE_RELEASED: (_("{actor} released {session} from quarantine"),),
    AuditKind.CALL_INTERRUPTED: (
        _("{call} was interrupted in {session}: the tool failed with {error_type} and may still have done it"),
        _("{call} was interrupted in {session}"),
        _("A call of {tool} was interrupted in {session}"),
        _("A call was interrupted in {session}"),
    ),
    AuditKind.CALL_DISCARDED: (
        _("{call} was discarded in {session}"),
        _("A call without a result was discarded in {session}"),
    ),
    AuditKind.LATE_RESULT: (
        _("A late result of {call} was refused in {session}"),
        _("A late result was refused in {session}"),
    ),
    AuditKind.VERIFY_REQUESTED: (
        _("{actor} asked to verify {call} in {session}"),
        _("{actor} asked to verify a call in {session}"),
    ),
    AuditKind.DECIDED: (
        _("{actor} decided {call} in {session}: {decision}"),
        _("{actor} decided a call in {session}: {decision}"),
        _("{actor} decided a call in {session}"),
    ),
    AuditKind.PAUSED_FOR_PEERS: (_("{actor} paused {session} to wait for other agents"),),
    AuditKind.PEER_EXPIRED: (_("Another agent did not answer {session} in time"),),
    AuditKind.LATE_RESPONSE: (_("Another agent answered {session} too late"),),
    AuditKind.JOIN_COMPLETE: (_("The other agents have answered {session}"),),
    AuditKind.PEERS_CANCELLED: (_("{actor} stopped waiting for other agents in {session}"),),
    AuditKind.SIGNED_IN: (_("{actor} signed in ({methods})"), _("{actor} signed in")),
    AuditKind.SIGN_IN_FAILED: (_("A sign-in as {actor} failed"),),
    AuditKind.SIGNED_OUT: (_("{actor} signed out"),),
    AuditKind.SIGN_INS_ENDED: (_("{actor} signed out other browsers"),),
    AuditKind.PASSWORD_CHANGED: (_("{actor} changed the password"),),
    AuditKind.FACTOR_ADDED: (_("{actor} added a second factor ({factor})"), _("{actor} added a second factor")),
    AuditKind.FACTOR_REMOVED: (
        _("{actor} removed a second factor ({factor})"),
        _("{actor} removed a second factor"),
    ),
    AuditKind.FACTOR_RULE_CHANGED: (
        _("{actor} changed who needs a second factor from “{required_before}” to “{required_of}”"),
        _("{actor} changed who needs a second factor"),
    ),
    AuditKind.INVITED: (
        _("{actor} created an invitation for {email} with the role {role}"),
        _("{actor} created the invitation “{note}” with the role {role}"),
        _("{actor} created an invitation for the role {role}"),
        _("{actor} created an invitation"),
    ),
    AuditKind.INVITATION_REVOKED: (
        _("{actor} revoked the invitation for {email} with the role {role}"),
        _("{actor} revoked the invitation “{note}” with the role {role}"),
        _("{actor} revoked an invitation for the role {role}"),
        _("{actor} revoked an invitation"),
    ),
    AuditKind.MEMBER_ADDED: (_("{actor} joined with the role {role}"), _("{actor} joined")),
    AuditKind.ROLE_CHANGED: (
        _("{actor} changed the role of {member} from {before} to {role}"),
        _("{actor} changed a role"),
    ),
    AuditKind.MEMBER_REMOVED: (_("{actor} removed the member {member}"), _("{actor} removed a member")),
    AuditKind.MEMBER_DEACTIVATED: (
        _("{actor} deactivated the account of {member}"),
        _("{actor} deactivated an account"),
    ),
    AuditKind.MEMBER_REACTIVATED: (
        _("{actor} reactivated the account of {member}"),
        _("{actor} reactivated an account"),
    ),
    AuditKind.TOKEN_CREATED: (_("{actor} created the API token {token_name}"), _("{actor} created an API token")),
    AuditKind.TOKEN_REVOKED: (_("{actor} revoked the API token {token_name}"), _("{actor} revoked an API token")),
    AuditKind.TOKEN_USED: (_("{actor} was used"),),
    AuditKind.TOKEN_REFUSED: (_("{actor} was refused"),),
    AuditKind.CLAIMED: (_("{actor} claimed {call} in {session}"), _("{actor} claimed a call in {session}")),
    AuditKind.RELEASED: (_("{actor} released {call} in {session}"), _("{actor} released a call in {session}")),
    AuditKind.HANDED_OVER: (
        _("{actor} handed {call} in {session} over to {to_member}"),
        _("{actor} handed a call in {session} over to {to_member}"),
        _("{actor} handed over a call in {session}"),
    ),
    AuditKind.COMMENTED: (
        _("{actor} added a comment to {call} in {session}"),
        _("{actor} added a comment to a call in {session}"),
    ),
    AuditKind.VIEWED: (_("{actor} read {session}"),),
    AuditKind.EXCERPTED: (
        _("{actor} saw excerpts of {session} on the page “{page}”"),
        _("{actor} saw excerpts of {session}"),
    ),
    AuditKind.EVIDENCE_OPENED: (
        _("{actor} opened evidence about {call} in {session}"),
        _("{actor} opened evidence in {session}"),
    ),
    AuditKind.EXPORTED: (_("{actor} exported {session}"),),
    AuditKind.LABELLED: (
        _("{actor} added the label “{added}” to {session}"),
        _("{actor} removed the label “{removed}” from {session}"),
        _("{actor} changed the labels of {session}"),
    ),
    AuditKind.UNMASKED: (_("{actor} showed secrets for {minutes} minutes"), _("{actor} showed secrets")),
    AuditKind.MASKING_CHANGED: (_("{actor} changed the masking rules"),),
    AuditKind.WEBHOOK_CREATED: (_("{actor} created the webhook {webhook}"), _("{actor} created a webhook")),
    AuditKind.WEBHOOK_CHANGED: (_("{actor} changed the webhook {webhook}"), _("{actor} changed a webhook")),
    AuditKind.WEBHOOK_PAUSED: (_("{actor} paused the webhook {webhook}"), _("{actor} paused a webhook")),
    AuditKind.WEBHOOK_RESUMED: (_("{actor} resumed the webhook {webhook}"), _("{actor} resumed a webhook")),
    AuditKind.WEBHOOK_DELETED: (_("{actor} deleted the webhook {webhook}"), _("{actor} deleted a webhook")),
    AuditKind.WEBHOOK_TESTED: (_("{actor} tested the webhook {webhook}"), _("{actor} tested a webhook")),
    AuditKind.MESSAGE_RETRIED: (_("{actor} sent a message again"),),
    AuditKind.NOTIFICATIONS_CHANGED: (_("{actor} changed the notifications"),),
    AuditKind.ADDRESS_CONFIRMED: (_("{actor} confirmed an e-mail address"),),
    AuditKind.MAIL_TESTED: (_("{actor} sent a test message by e-mail"),),
    AuditKind.AUDIT_VERIFIED: (_("{actor} verified the audit trail"),),
}
#: Kind → sentences about several sessions of one folded row. The first one of which all values are known is used.
_SENTENCES_ABOUT_SEVERAL_SESSIONS: Final[dict[str, tuple[Promise, ...]]] = {
    AuditKind.SESSION_STARTED: (_("{actor} started {number} sessions"),),
    AuditKind.SESSION_FINISHED: (_("{actor} finished {number} sessions"),),
    AuditKind.SESSION_IMPORTED: (
        _("The costs of {number} sessions were estimated from the price table {prices}"),
        _("{actor} imported {number} sessions"),
    ),
    AuditKind.SESSION_NEEDS_REVIEW: (_("{number} sessions were paused for decisions"),),
    AuditKind.SESSION_READY: (_("{number} sessions can continue: none of their calls is undecided"),),
    AuditKind.RUN_STARTED: (_("{actor} started in {number} sessions"),),
    AuditKind.RUN_RELEASED: (_("{actor} released {number} sessions"),),
    AuditKind.RUN_LOST: (_("{actor} was lost in {number} sessions"),),
    AuditKind.VERSIONS_REMOVED: (_("{actor} removed old versions of {number} sessions"),),
    AuditKind.SESSION_DELETED: (_("{actor} deleted {number} sessions"),),
    AuditKind.SESSION_SEALED: (_("{actor} sealed the stored rows of {number} sessions"),),
    AuditKind.DECISIONS_SIGNED: (_("{actor} signed the stored decisions of {number} sessions"),),
    AuditKind.CALL_INTERRUPTED: (
        _("Calls of {tool} were interrupted in {number} sessions"),
        _("Calls were interrupted in {number} sessions"),
    ),
    AuditKind.CALL_DISCARDED: (_("Calls without a result were discarded in {number} sessions"),),
    AuditKind.VERIFY_REQUESTED: (_("{actor} asked to verify calls in {number} sessions"),),
    AuditKind.VIEWED: (_("{actor} read {number} sessions"),),
    AuditKind.EXCERPTED: (
        _("{actor} saw excerpts of {number} sessions on the page “{page}”"),
        _("{actor} saw excerpts of {number} sessions"),
    ),
    AuditKind.EXPORTED: (_("{actor} exported {number} sessions"),),
    AuditKind.LABELLED: (
        _("{actor} added the label “{added}” to {number} sessions"),
        _("{actor} removed the label “{removed}” from {number} sessions"),
        _("{actor} changed the labels of {number} sessions"),
    ),
}
#: Status of a session that ended otherwise than completed → sentences about it, and about several sessions.
_ENDED_OTHERWISE: Final[dict[str, tuple[Promise, Promise]]] = {
    SessionStatus.CANCELLED: (_("{actor} cancelled {session}"), _("{actor} cancelled {number} sessions")),
    SessionStatus.FAILED: (_("{actor} ended {session} as failed"), _("{actor} ended {number} sessions as failed")),
}
#: Sentences about imported transcripts that ended without the result of a call.
_ENDED_WITHOUT_RESULT: Final = (
    _("{actor} closed {session}: its transcript ended without the result of a call"),
    _("{actor} closed {number} sessions: their transcripts ended without the result of a call"),
)
#: Sentences about imports that no person started.
_IMPORTED: Final = (_("{session} was imported"), _("{number} sessions were imported"))
#: Kind → sentence about a question.
_ABOUT_QUESTION: Final = {
    AuditKind.APPROVAL_REQUESTED: _("{actor} asked a question in {session}: {call}"),
    AuditKind.CALL_DISCARDED: _("A question was withdrawn in {session}: {call}"),
}
#: Sentences about the call with an unknown outcome that a fork has copied: no process ran in the fork.
_COPIED_BY_FORK: Final = (
    _("{call} was copied into {session}: its outcome is unknown there too"),
    _("A call of {tool} was copied into {session}: its outcome is unknown there too"),
    _("A call was copied into {session}: its outcome is unknown there too"),
)
_RUN_EVENTS_IN_ONE_SESSION: Final = _("Runs of {session} caused {number} events")
_RUN_EVENTS_IN_SEVERAL_SESSIONS: Final = _("Runs of {sessions} sessions caused {number} events")
_DECIDED_SEVERAL: Final = _("{actor} decided {number} calls: {decision}")
_CHANGED_SEVERAL: Final = _("{actor} changed the arguments of {number} calls")
_RESTORED_SEVERAL: Final = _("{actor} restored the original arguments of {number} calls")
_CHANGED: Final = _("{actor} changed {call_before} to {call} in {session}")
_RESTORED: Final = _("{actor} restored the original arguments of {call} in {session}")
_WITHDREW: Final = _("{actor} withdrew the decision about {call} in {session}")
_WITHDREW_SEVERAL: Final = _("{actor} withdrew decisions about {number} calls")
_VOTED: Final = _("{actor} decided {call} in {session}: {decision}")
#: Decisions that need the same one of somebody else if a call needs several approvals.
_VOTES: Final = DECIDING_KINDS - {DecisionKind.EDIT}
_OTHER_KIND_IN_SEVERAL_SESSIONS: Final = _("{actor}: {label} in {number} sessions")
#: Sentence of a call inside that of an entry, in the quotation marks of the language.
_QUOTED_CALL: Final = _("“{sentence}”")
#: Quotation marks in the sentence of a call, which has marks of its own around it.
_INNER_QUOTES: Final = str.maketrans("“”„", "‘’‚")
_EXPORTED_LIST: Final = _("{actor} exported the list “{what}”")
_OTHER_KIND: Final = _("{actor}: {label}")
_OTHER_KIND_IN_SESSION: Final = _("{actor}: {label} in {session}")
#: Actor of the events that a fork records about the calls that it copies, in steps below zero.
_ACTOR_OF_FORKS: Final = "fork"
#: Largest number of characters of a name.
_NAMED: Final = 80
_NAMED_SESSION_OF_FORK: Final = 36
#: Answer of a verify hook → what its label says where the hook is named as the actor.
_HOOK_ANSWERS: Final[dict[str, str]] = {
    DecisionKind.PROBE_LANDED: DecisionKind.CONFIRM_LANDED,
    DecisionKind.PROBE_NOT_LANDED: DecisionKind.MARK_FAILED,
    DecisionKind.PROBE_UNKNOWN: CallStatus.INTERRUPTED,
}


def build_sentence_of_folded_entries(
    row: EntryRow, calls: Mapping[int, AuditedCall], invitations: Mapping[int, Invitation]
) -> SafeString:
    """Build the sentence of a row: of its only entry, or of all of them, with their number.

    `calls` and `invitations` are what entries with rows of their own are about, by the keys of these entries.
    """
    entries = [entry for entry in row.entries if isinstance(entry, AuditEntry)]
    entry = entries[0]
    if not row.is_folded:
        return build_entry_sentence(entry, calls.get(entry.pk), invitations.get(entry.pk))
    if row.decisions:
        number = format_number(len(row.decisions))
        return build_sentence_about_several_decisions(row.decisions[0], number)
    sessions = set(map(_get_session_pk_or_id, entries))
    if row.run_event_counts_by_label:
        sentence = _RUN_EVENTS_IN_ONE_SESSION if len(sessions) == 1 else _RUN_EVENTS_IN_SEVERAL_SESSIONS
        counts = {"number": format_number(len(entries)), "sessions": format_number(len(sessions))}
        return _fill_first_complete_sentence(entry, [str(sentence)], **counts)
    if entry.kind == AuditKind.SESSION_FORKED:  # an entry of the original, and one of the fork
        return build_entry_sentence(entry)
    if len(sessions) == 1:
        times = gettext("{number} times").format(number=format_number(len(entries)))
        return build_html('{} <b class="times">{}</b>', build_entry_sentence(entry), times)
    sentences = (
        *_list_sentences_by_details(entry, about_several_sessions=True),
        *_SENTENCES_ABOUT_SEVERAL_SESSIONS.get(entry.kind, ()),
        _OTHER_KIND_IN_SEVERAL_SESSIONS,
    )
    return _fill_first_complete_sentence(entry, map(str, sentences), number=format_number(len(sessions)))


def build_sentence_about_several_decisions(entry: AuditEntry, number: str) -> SafeString:
    """Build the sentence of a row of a `number` of decisions, which are those of an entry about other calls."""
    if entry.details.get("args_restored") is True:
        sentence = _RESTORED_SEVERAL
    elif entry.details.get("decision") == DecisionKind.EDIT:
        sentence = _CHANGED_SEVERAL
    else:
        sentence = _WITHDREW_SEVERAL if _is_withdrawal(entry) else _DECIDED_SEVERAL
    return _fill_first_complete_sentence(entry, [str(sentence)], number=number)


@dataclass(frozen=True, slots=True)
class KindOfEntries:
    """Entries of one kind, of which the stored details have a text; empty for all of them."""

    kind: str
    in_details: str = ""


def list_kinds_with_word_in_sentence(word: str) -> list[KindOfEntries]:
    """List the entries of which a sentence may have a word besides names, in the current language.

    The word is in folded case. What a sentence says of a call, a session or an actor is not searched.
    """
    other_kinds = {kind: (_OTHER_KIND_IN_SESSION,) for kind in AuditKind if kind not in _SENTENCES}
    sentences: list[tuple[KindOfEntries, Iterable[Promise]]] = [
        *((KindOfEntries(kind), named) for kind, named in (_SENTENCES | other_kinds).items()),
        *((KindOfEntries(kind), [sentence]) for kind, sentence in _ABOUT_QUESTION.items()),
        (KindOfEntries(AuditKind.SESSION_FINISHED, InterruptReason.NO_RESULT), _ENDED_WITHOUT_RESULT[:1]),
        *((KindOfEntries(AuditKind.SESSION_FINISHED, status), pair[:1]) for status, pair in _ENDED_OTHERWISE.items()),
        (KindOfEntries(AuditKind.SESSION_IMPORTED), _IMPORTED[:1]),
        (KindOfEntries(AuditKind.CALL_INTERRUPTED), _COPIED_BY_FORK),
        (KindOfEntries(AuditKind.EXPORTED), [_EXPORTED_LIST]),
        (KindOfEntries(AuditKind.DECIDED, "args_restored"), [_RESTORED]),
        (KindOfEntries(AuditKind.DECIDED, f'"{DecisionKind.EDIT}"'), [_CHANGED, _CHANGED_SEVERAL, _RESTORED_SEVERAL]),
        (KindOfEntries(AuditKind.DECIDED, f'"{DecisionKind.WITHDRAW}"'), [_WITHDREW, _WITHDREW_SEVERAL]),
        (KindOfEntries(AuditKind.DECIDED), [_DECIDED_SEVERAL]),
    ]
    labels = [KindOfEntries(kind) for kind in other_kinds if word in str(translate_label(kind)).casefold()]
    return labels + [
        entries
        for entries, named in sentences
        if any(word in _get_text_without_placeholders(str(sentence)) for sentence in named)
    ]


@lru_cache(maxsize=500)
def _get_text_without_placeholders(sentence: str) -> str:
    return "\n".join(text for text, _name, _format, _conversion in Formatter().parse(sentence)).casefold()


def build_entry_sentence(
    entry: AuditEntry, call: AuditedCall | None = None, invitation: Invitation | None = None
) -> SafeString:
    """Build the sentence of an entry, with links to its session and to the `call` that it is about.

    An `invitation` that it is about is named by its address or its note, and by its role.
    """
    sentences: tuple[Promise, ...] = (
        *_list_sentences_about_call(entry, call),
        *_list_sentences_by_details(entry, about_several_sessions=False),
        *_SENTENCES.get(entry.kind, ()),
    )
    if entry.session_pk is not None:
        sentences = (*sentences, _OTHER_KIND_IN_SESSION)
    elif entry.kind == AuditKind.EXPORTED:
        sentences = (_EXPORTED_LIST, *sentences)
    values: dict[str, str] = {}
    if call is not None:
        quoted = _quote_call_sentence(call.sentence_before)
        values = {"call": _render_call_in_sentence(call), "call_before": quoted}
    if entry.kind == AuditKind.SESSION_FORKED:
        values |= render_sessions_of_fork(entry.details, entry.session_id, entry.session_pk)
    if invitation is not None:
        values["role"] = mask_and_format_detail_value(invitation.role, "role")
        texts = {"email": invitation.email, "note": invitation.note}
        values |= {name: _mask_and_shorten_value(text) for name, text in texts.items() if text}
    if call is not None and call.is_question and (label := format_decision_label(entry, call)):
        values["decision"] = build_html("<b>{}</b>", label)
    return _fill_first_complete_sentence(entry, map(str, (*sentences, _OTHER_KIND)), **values)


def format_decision_label(entry: AuditEntry, call: AuditedCall | None = None) -> str:
    """Return the words for the decision of an entry, such as “Approved”; empty without one."""
    decision = entry.details.get("decision")
    if not isinstance(decision, str) or not decision:
        return ""
    if call is not None and call.is_question:
        return str(get_decision_shape_and_label(decision, about_question=True, about_changed_value=False)[1])
    return str(get_status_shape_and_label(_HOOK_ANSWERS.get(decision, decision))[1])


def render_sessions_of_fork(
    details: Mapping[str, Any], session_id: str | None, session_pk: int | None, *, linked: bool = True
) -> dict[str, str]:
    """Render the original and the fork that an event names, with links; nothing of an event that does not name both.

    Args:
        details: The details of the event.
        session_id: The session of the event: the original, or the fork. Its key is `session_pk`.
        session_pk: None if it is deleted; then neither has a link.
        linked: False for a page that is read without the site.
    """
    original, fork, other_pk = details.get("origin"), details.get("forked"), details.get("other")
    if not isinstance(original, str) or not isinstance(fork, str):
        return {}
    linkable = linked and session_pk is not None and isinstance(other_pk, int)
    return {
        name: build_html(
            '<a href="{}" class="mono" title="{}">{}</a>',
            reverse("harness_sessions:session", args=[session_pk if named == session_id else other_pk]),
            _mask_and_shorten_value(named),
            shorten_text_in_middle(_mask_and_shorten_value(named), _NAMED_SESSION_OF_FORK),
        )
        if linkable
        else build_html('<span class="mono">{}</span>', _mask_and_shorten_value(named))
        for name, named in (("original", original), ("fork", fork))
    }


def _list_sentences_about_call(entry: AuditEntry, call: AuditedCall | None) -> list[Promise]:
    """List the sentences that the `call` or the decision of an entry chooses, before those of its kind."""
    if call is not None and entry.kind in _ABOUT_QUESTION and call.is_question:
        return [_ABOUT_QUESTION[AuditKind(entry.kind)]]
    if entry.kind == AuditKind.CALL_INTERRUPTED and _is_of_copied_call(entry):
        return list(_COPIED_BY_FORK)
    if entry.details.get("args_restored") is True:
        return [_RESTORED]
    if call is not None and call.sentence_before not in ("", call.sentence):
        return [_CHANGED]
    if call is not None and call.approvals > 1 and entry.details.get("decision") in _VOTES:
        return [_VOTED]
    return [_WITHDREW] if _is_withdrawal(entry) else []


def _is_of_copied_call(entry: AuditEntry) -> bool:
    step = entry.details.get("step")
    return entry.actor == _ACTOR_OF_FORKS and isinstance(step, int) and step < 0


def _list_sentences_by_details(entry: AuditEntry, *, about_several_sessions: bool) -> list[Promise]:
    """List the sentences that a detail or the actor of an entry chooses, before those of its kind."""
    if entry.kind == AuditKind.SESSION_FINISHED:
        is_without_result = entry.details.get("reason") == InterruptReason.NO_RESULT
        chosen: list[tuple[Promise, Promise]] = [_ENDED_WITHOUT_RESULT] if is_without_result else []
        if (pair := _ENDED_OTHERWISE.get(str(entry.details.get("status")))) is not None:
            chosen.append(pair)
    elif entry.kind == AuditKind.SESSION_IMPORTED and entry.actor_kind == ActorKind.MACHINE:
        chosen = [] if "prices" in entry.details else [_IMPORTED]
    else:
        chosen = []
    return [pair[about_several_sessions] for pair in chosen]


def _fill_first_complete_sentence(entry: AuditEntry, sentences: Iterable[str], **values: str) -> SafeString:
    """Fill in the first sentence of which all values are known: those of the entry, and `values`."""
    details = {name for name, value in entry.details.items() if isinstance(value, (str, int)) and value != ""}
    known = details | _RENDERED_WITHOUT_DETAILS.keys() | values.keys()
    sentence = next(sentence for sentence in sentences if _collect_placeholders(sentence) <= known)
    rendered = {
        name: _render_placeholder_value(entry, name) for name in _collect_placeholders(sentence) if name not in values
    }
    return build_html(sentence, **rendered, **values)


def _is_withdrawal(entry: AuditEntry) -> bool:
    return entry.details.get("decision") == DecisionKind.WITHDRAW


def _render_call_in_sentence(call: AuditedCall) -> SafeString:
    """Render the sentence of a call with a link: to where it is decided, or to its page in its session afterwards."""
    address = (
        reverse("harness_review:card", args=[call.pk])
        if call.is_undecided
        else reverse("harness_sessions:session-call", args=[call.session_pk, call.pk])
    )
    return build_html('<a href="{}" dir="auto">{}</a>', address, _quote_call_sentence(call.sentence))


def _quote_call_sentence(sentence: str) -> SafeString:
    return build_html(str(_QUOTED_CALL), sentence=sentence.translate(_INNER_QUOTES))


def _render_placeholder_value(entry: AuditEntry, name: str) -> str:
    """Render what a sentence says of an entry: its actor, session or label, or one of its details."""
    if name in _RENDERED_WITHOUT_DETAILS:
        return _RENDERED_WITHOUT_DETAILS[name](entry)
    if name == "decision":
        return build_html("<b>{}</b>", format_decision_label(entry))
    return _mask_and_shorten_value(mask_and_format_detail_value(entry.details[name], name))


def _get_session_pk_or_id(entry: AuditEntry) -> Any:
    return entry.session_pk if entry.session_pk is not None else entry.details.get("session_id")


@lru_cache(maxsize=500)
def _collect_placeholders(sentence: str) -> frozenset[str]:
    return frozenset(name for _text, name, _format, _conversion in Formatter().parse(sentence) if name)


def build_fork_sentence(
    details: Mapping[str, Any], actor: str, actor_kind: str, session_pk: int, session_id: str, *, linked: bool
) -> SafeString | None:
    """Build the sentence of the history of a session about a fork; None if its event does not name both sessions."""
    sessions = render_sessions_of_fork(details, session_id, session_pk, linked=linked)
    if not sessions or not isinstance(version := details.get("version"), int):
        return None
    sentence = str(_SENTENCES[AuditKind.SESSION_FORKED][0])
    return build_html(
        sentence, actor=_render_name_of_actor(actor, actor_kind, is_first_word=True), version=version, **sessions
    )


def _render_actor_in_sentence(entry: AuditEntry) -> SafeString:
    return _render_name_of_actor(entry.actor, entry.actor_kind, is_first_word=entry.kind != AuditKind.TAKEOVER)


def _render_name_of_actor(actor: str, actor_kind: str, *, is_first_word: bool) -> SafeString:
    note = gettext("(API token)") if actor_kind == "token" else ""
    form = "{}" if actor_kind == ActorKind.MACHINE else "<b>{}</b>"
    shown = mask_and_format_actor(actor, actor_kind, is_first_word=is_first_word)
    name = build_html(form, mask_and_shorten_to_one_line(shown, _NAMED))
    return build_html('{} <span class="muted">{}</span>', name, note) if note else name


def _render_session_in_sentence(entry: AuditEntry) -> SafeString:
    if entry.session_pk is not None:
        address = reverse("harness_sessions:session", args=[entry.session_pk])
        return build_html('<a href="{}" class="mono">{}</a>', address, _mask_and_shorten_value(entry.session_id))
    gone = entry.details.get("session_id")
    return (
        build_html('<span class="mono">{}</span>', _mask_and_shorten_value(gone))
        if gone
        else build_html("{}", gettext("a deleted session"))
    )


def _mask_and_shorten_value(value: Any) -> str:
    return mask_and_shorten_to_one_line(value, _NAMED)


def _format_label_in_sentence(entry: AuditEntry) -> str:
    return _mask_and_shorten_value(entry.label)


#: Placeholder of a sentence that needs no detail of the entry → how it is rendered.
_RENDERED_WITHOUT_DETAILS: Final[dict[str, Callable[[AuditEntry], str]]] = {
    "actor": _render_actor_in_sentence,
    "session": _render_session_in_sentence,
    "label": _format_label_in_sentence,
}
