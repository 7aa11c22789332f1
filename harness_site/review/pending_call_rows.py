"""Row of the review queue, with all displayed values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Any, ClassVar, Final

from django.http import QueryDict
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext, pgettext

from checkpoints.calls.require_unaltered_call import require_matching_digests
from checkpoints.enums import CallStatus, DecisionKind, Risk
from checkpoints.exceptions import IntegrityError, SealError
from checkpoints.integrity import quarantine
from checkpoints.models import ToolCall
from checkpoints.models.translated_enum_choices import translate_label
from checkpoints.seals import row_seals
from harness_site.core import (
    call_sentences,
    masked_formatting,
    risk_effect_and_idempotency_texts,
    status_and_decision_labels,
    unknown_outcome_reasons,
)
from harness_site.core.masked_json_value_differences import ValueDifference, list_value_differences
from harness_site.core.masking.masker import (
    mask_values_of_secret_fields_in_context,
    use_masking_rules_with_extra_values,
)
from harness_site.core.money_amounts_in_call_arguments import (
    find_amount_argument_name,
    find_visible_amount,
    is_amount_in_sentence,
    sum_amounts_in_one_currency,
)
from harness_site.core.rendering.fast_format_html import build_html
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden
from harness_site.core.unreadable_rows_and_quarantine import (
    UnreadableRecord,
    convert_rows_or_mark_unreadable,
    filter_out_unreadable_records,
)
from harness_site.review.load_claims_and_record_presence import NOBODY, CallClaimsAndPresence
from harness_site.review.outage_group_rows import (
    FilterLink,
    OutageCallLine,
    OutageGroupRow,
    describe_common_cause,
    format_outage_title,
)
from harness_site.review.outage_page_url import build_outage_page_url
from harness_site.review.question_choices import (
    list_question_choices,
    remove_listed_choices,
    remove_requested_answer_type,
)
from harness_site.review.selectors.comment_counts_and_last_authors import CommentCount
from harness_site.review.selectors.edits_and_withdrawals_of_pending_calls import ChangesOfWaitingCall
from harness_site.review.selectors.outage_groups import Outage
from harness_site.review.selectors.usual_amounts import UnusualAmount, UsualAmounts
from harness_site.sessions.selectors.multi_person_decisions import Agreement
from harness_site.sessions.session_and_call_links import SessionLinks
from harness_site.templatetags.harness_tags import (
    build_filter_url,
    lowercase_label_in_sentence,
    render_icon,
    render_time_ago,
)

#: Maximum number of changed arguments that a row names.
_SHOWN_DIFFERENCES: Final = 3


@dataclass(frozen=True, slots=True)
class AgreementRow:
    """Agreement about a call, or a question, so far: number and names of the people."""

    kind: DecisionKind
    people: int
    names: tuple[str, ...]
    is_about_question: bool


#: Maximum number of agents that the row of an outage names.
_MOST_AGENTS: Final = 5


@dataclass(frozen=True, slots=True)
class PendingCallRow:
    """Row of the queue with its displayed values, masked for the reader."""

    is_verified: ClassVar[bool] = True
    pk: int
    address: str
    sentence: str
    #: Arguments, left out of the representation; their secret values are masked in the names of people.
    args: str = field(repr=False)
    tool: FilterLink
    agent: FilterLink | None
    session_pk: int
    session_address: str
    session_id: str
    css_class: str
    #: What the call waits for: its status, how many people have decided, or that people disagree; empty if the list
    #: says it.
    status: str
    asking: bool
    overdue: bool
    why: str
    #: Amount in the arguments; empty without one.
    amount: str
    is_amount_said: bool
    #: The arguments that neither the sentence nor `facts` says. Of a question: its options, and what else it says.
    details: str
    #: What the amounts of the tool are at most, if that of the call is far above them; else empty.
    usual_amount: SafeString
    #: The amount, and the risk as a link to the calls of the same risk, if it is another than usual.
    facts: SafeString
    since: SafeString
    deadline: datetime | None
    approvals: int
    voices: tuple[AgreementRow, ...]
    company: CallClaimsAndPresence
    #: Why the reader cannot decide about the call now, if others can; else empty.
    waits_for_others: str
    #: The outage, if the call was interrupted together with others.
    together: OutageGroupRow | None
    #: Final status of the session; empty while it is open.
    ended: str
    #: Page about the altered data of a quarantined session; empty for any other.
    quarantine_address: str = ""
    #: Page and session of the call from which a fork has copied this one; empty if it is no copy.
    original_address: str = ""
    original_session_id: str = ""
    #: Number of the comments, and who wrote the last one; empty without any.
    comments: str = ""
    #: Name of the colleague whose comment mentions the reader, masked; empty without one.
    mentioned_by: str = ""

    @property
    def has_notes(self) -> bool:
        """Return whether a note beside the reason follows the tool, the agent and the session; most rows have none."""
        return bool(self.comments or self.original_address or self.waits_for_others or self.ended)

    @property
    def has_mention_or_quarantine(self) -> bool:
        """Return whether a mention or a quarantine is marked; most rows have neither."""
        return bool(self.mentioned_by or self.quarantine_address)

    @property
    def does_name_people(self) -> bool:
        """Return whether the row names people."""
        return self.company != NOBODY or self.approvals > 1


@dataclass(frozen=True, slots=True)
class UnverifiedCallRow:
    """Row of a call that is not shown, because the call or its session was altered or its seal cannot be checked."""

    is_verified: ClassVar[bool] = False
    pk: int
    address: str
    sentence: str
    label: str


class PendingRowBuilder:
    """Builder of the rows of a queue, whose URLs and words are computed once for all rows.

    `query` has the filters of the page; `secrets` is the result of `load_known_secrets_of_sessions`, and
    `usual_amounts` that of `load_usual_amounts`.
    """

    def __init__(self, query: QueryDict, secrets: Mapping[int, Collection[str]], usual_amounts: UsualAmounts) -> None:
        self._query = query
        self._secrets = secrets
        self._usual_amounts = usual_amounts
        self._sessions = SessionLinks()
        self._links: dict[tuple[str, str, str], FilterLink] = {}
        self._risk_links: dict[tuple[str, bool], SafeString] = {}
        self._cards = reverse("harness_review:card", args=[0]).removesuffix("0/")
        # Labels are translated once for all rows.
        self._get_status_shape_and_label = cache(status_and_decision_labels.get_status_shape_and_label)
        self._format_interrupt_reason = cache(unknown_outcome_reasons.format_interrupt_reason)
        self._translate_status = cache(_translate_status)
        self._only_tool, self._only_agent = gettext("Only the tool %(tool)s"), gettext("Only the agent %(agent)s")

    def check_integrity_and_build_row(
        self,
        call: ToolCall,
        agreements: tuple[Agreement, ...],
        people: CallClaimsAndPresence,
        outage_row: OutageGroupRow | None,
        *,
        now: datetime,
        hook_could_not_tell: bool,
        changes: ChangesOfWaitingCall,
        original: ToolCall | None = None,
        waits_for_others: str = "",
        comments: CommentCount | None = None,
    ) -> PendingCallRow | UnverifiedCallRow:
        """Build the row of a call, or the row that says why the call is not shown."""
        if error := find_verification_error_and_quarantine(call):
            sentence, label = get_seal_error_sentence_and_label(error)
            return UnverifiedCallRow(call.pk, f"{self._cards}{call.pk}/", sentence, label)
        args = masked_formatting.parse_json_or_text(call.args_json_in_caller_order)
        with (
            use_masking_rules_with_extra_values(self._secrets.get(call.session_id, ())),
            mask_values_of_secret_fields_in_context(args),
        ):
            why = _format_distinguishing_facts_of_call(
                call,
                args,
                changes,
                self._format_interrupt_reason,
                has_agreements=bool(agreements),
                hook_could_not_tell=hook_could_not_tell,
            )
            row = self._build_row_in_masking_context(
                call, args, agreements, people, outage_row, now, why, waits_for_others
            )
            if comments is not None:
                mentioned_by = mask_and_reveal_hidden(comments.mentioned_by)
                row = replace(row, comments=describe_comments(comments), mentioned_by=mentioned_by)
            if original is None:
                return row
            session_id = mask_and_reveal_hidden(original.session.session_id)
            return replace(row, original_address=f"{self._cards}{original.pk}/", original_session_id=session_id)

    def build_outage_group_row(
        self,
        outage: Outage,
        calls: Iterable[ToolCall | UnreadableRecord] = (),
        agent_counts: Counter[str] | None = None,
    ) -> OutageGroupRow:
        """Build the row of an outage that shows these calls. Without `agent_counts`, they are all of its calls."""
        lines = convert_rows_or_mark_unreadable(
            calls, self._quarantine_if_altered_and_build_outage_line, "call", attrgetter("session_id")
        )
        readable = filter_out_unreadable_records(lines)
        all_agents = agent_counts or Counter(line.agent for line in readable)
        agents = [(agent, number) for agent, number in all_agents.most_common() if agent]
        shown_risks = {line.risk for line in readable}
        amount = (
            sum_amounts_in_one_currency(line.amount for line in readable) if len(readable) == outage.number else None
        )
        return OutageGroupRow(
            tool=outage.tool,
            error_type=outage.error_type,
            title=format_outage_title(outage),
            first=outage.first,
            last=outage.last,
            number=outage.number,
            address=build_outage_page_url(outage),
            calls=tuple(lines),
            agents=tuple(
                (self._build_filter_link("agent", agent, self._only_agent), number)
                for agent, number in agents[:_MOST_AGENTS]
            ),
            other_agents_count=len(agents[_MOST_AGENTS:]),
            cause=describe_common_cause(outage, readable),
            amount="" if amount is None else str(amount),
            risk=next((self._get_risk_link(risk) for risk in reversed(Risk) if risk in shown_risks), ""),
        )

    def _quarantine_if_altered_and_build_outage_line(self, call: ToolCall) -> OutageCallLine:
        if error := find_verification_error_and_quarantine(call):
            return OutageCallLine(call.pk, f"{self._cards}{call.pk}/", get_seal_error_sentence_and_label(error)[0])
        args = masked_formatting.parse_json_or_text(call.args)
        with (
            use_masking_rules_with_extra_values(self._secrets.get(call.session_id, ())),
            mask_values_of_secret_fields_in_context(args),
        ):
            sentence = call_sentences.format_call_sentence(call)
            return OutageCallLine(
                call.pk,
                f"{self._cards}{call.pk}/",
                sentence,
                session_id=mask_and_reveal_hidden(call.session.session_id),
                agent=call.session.agent,
                error_message=masked_formatting.mask_and_shorten_output_to_one_line(call.error_message, 200),
                amount=find_visible_amount(args),
                risk=self.find_shown_risk(call),
            )

    def _build_row_in_masking_context(
        self,
        call: ToolCall,
        args: Any,
        agreements: tuple[Agreement, ...],
        people: CallClaimsAndPresence,
        outage_row: OutageGroupRow | None,
        now: datetime,
        why: str,
        waits_for_others: str,
    ) -> PendingCallRow:
        session, deadline = call.session, call.deadline
        css_class, _ = self._get_status_shape_and_label(call.status)
        asking = call.status == CallStatus.AWAITING_APPROVAL
        waiting_since, found_amount = call.interrupted_at or call.issued_at, find_visible_amount(args)
        amount = str(found_amount or "")
        sentence = call_sentences.format_call_sentence(call)
        is_amount_said = is_amount_in_sentence(found_amount, sentence)
        unusual_amount = self._usual_amounts.find_unusual_amount(call.tool, found_amount)
        usual_amount = _render_usual_amount(unusual_amount) if unusual_amount else SafeString()
        return PendingCallRow(
            pk=call.pk,
            address=f"{self._cards}{call.pk}/",
            sentence=sentence,
            args=call.args,
            tool=self._build_tool_filter_link(call),
            agent=self._build_filter_link("agent", session.agent, self._only_agent) if session.agent else None,
            session_pk=session.pk,
            session_address=self._sessions.build_session_url(session.pk),
            session_id=mask_and_reveal_hidden(session.session_id),
            css_class=css_class,
            status=_describe_what_call_waits_for(call, agreements, self._translate_status),
            asking=asking,
            overdue=deadline is not None and deadline < now,
            why=why,
            amount=amount,
            is_amount_said=is_amount_said,
            details=_describe_other_arguments(call, args, sentence, is_amount_shown=bool(amount)),
            usual_amount=usual_amount,
            facts=self._render_amount_and_risk(call, amount, usual_amount, is_amount_said=is_amount_said),
            since=render_time_ago(waiting_since),
            deadline=deadline,
            approvals=call.approvals,
            voices=tuple(_build_agreement_row(agreement, call) for agreement in agreements),
            company=people,
            waits_for_others=waits_for_others,
            together=outage_row,
            ended=lowercase_label_in_sentence(self._get_status_shape_and_label(session.status)[1])
            if session.finished
            else "",
            quarantine_address=""
            if session.quarantined_at is None
            else reverse("harness_sessions:session-quarantine", args=[session.pk]),
        )

    def _build_tool_filter_link(self, call: ToolCall) -> FilterLink:
        link = self._build_filter_link("tool", call.tool, self._only_tool)
        return replace(link, name=gettext("question"), label=gettext("Only questions")) if call.is_question else link

    def _build_filter_link(self, parameter: str, value: str, label: str) -> FilterLink:
        """Build the link to the calls of one tool or agent, once for all rows that may show the same of its name."""
        name = mask_and_reveal_hidden(value)
        if parameter == "tool":
            name = call_sentences.remove_mcp_prefix(name)
        link = self._links.get((parameter, value, name))
        if link is None:
            address = build_filter_url(self._query, **{parameter: value})
            link = self._links[parameter, value, name] = FilterLink(name, address, label % {parameter: name})
        return link

    def find_shown_risk(self, call: ToolCall, *, has_unusual_amount: bool = False) -> str:
        """Return the risk of a call if it is unusual, or if the rows are ordered or filtered by it; else empty.

        A low one is not shown beside an unusual amount, which it seems to deny.
        """
        if has_unusual_amount and call.risk == Risk.LOW:
            return ""
        if not call.is_question and (self._query.get("sort") == "risk" or self._query.get("risk") in Risk.values):
            return call.risk
        return risk_effect_and_idempotency_texts.find_unusual_risk(call) or ""

    def _render_amount_and_risk(
        self, call: ToolCall, amount: str, usual_amount: SafeString, *, is_amount_said: bool
    ) -> SafeString:
        """Render them. `is_amount_said` is whether the sentence has the amount, so that narrow pages leave it out."""
        html_class = "amount said" if is_amount_said else "amount"
        facts = build_html('<span class="{}">{}</span>', html_class, amount) if amount else SafeString()
        facts = SafeString(facts + usual_amount)
        risk = self.find_shown_risk(call, has_unusual_amount=bool(usual_amount))
        is_usual = risk_effect_and_idempotency_texts.find_unusual_risk(call) is None
        return SafeString(facts + self._get_risk_link(risk, is_usual=is_usual)) if risk else facts

    def _get_risk_link(self, risk: str, *, is_usual: bool = True) -> SafeString:
        """Return the link to the calls of this risk, which is rendered once."""
        link = self._risk_links.get((risk, is_usual))
        if link is None:
            link = self._risk_links[risk, is_usual] = self._render_risk_filter_link(risk, is_usual=is_usual)
        return link

    def _render_risk_filter_link(self, risk: str, *, is_usual: bool) -> SafeString:
        words = str(translate_label(Risk(risk))) if risk in Risk.values else risk
        return build_html(
            '<a class="risk {}" href="{}" title="{}" aria-label="{}">{}{}</a>',
            risk,
            build_filter_url(self._query, risk=risk),
            _explain_source_of_risk(risk, is_usual=is_usual),
            gettext("Only %(risk)s") % {"risk": lowercase_label_in_sentence(words)},
            render_icon("triangle-alert") if risk == Risk.HIGH else "",
            words,
        )


def describe_comments(comments: CommentCount | None) -> str:
    """Describe how many comments a call has, and who wrote the last one, masked; empty without any."""
    if comments is None:
        return ""
    values = {"number": comments.number, "name": mask_and_reveal_hidden(comments.last_author)}
    return (
        ngettext("%(number)s comment by %(name)s", "%(number)s comments, the last by %(name)s", comments.number)
        % values
    )


def _format_distinguishing_facts_of_call(
    call: ToolCall,
    args: Any,
    changes: ChangesOfWaitingCall,
    format_interrupt_reason: Callable[[str], str],
    *,
    has_agreements: bool,
    hook_could_not_tell: bool,
) -> str:
    """Return what distinguishes a call from most others: why its outcome is unknown, and what people did to it."""
    words = []
    if call.status == CallStatus.AWAITING_APPROVAL:
        if call.has_changed_args:
            words.append(_describe_edits(args, changes))
    else:
        words.append(format_interrupt_reason(call.reason))
        if call.verifiable:
            words.append(
                unknown_outcome_reasons.explain_verify_hook_ability(True, hook_could_not_tell=hook_could_not_tell)
            )
            if hook_could_not_tell:
                words.append(gettext("The tool can check it again"))
    if changes.withdrawal:
        name = mask_and_reveal_hidden(changes.withdrawal.actor)
        words.append(gettext("%(name)s withdrew the decision") % {"name": name})
        if changes.cancels_others and not has_agreements:
            words.append(gettext("The approvals of other people are cancelled too: everybody has to decide again."))
    return " · ".join(words)


def _describe_edits(args: Any, changes: ChangesOfWaitingCall) -> str:
    """Say who changed the arguments, and what: “maya changed price: 39.00 → 38.50”."""
    if not changes.edits:
        return gettext("The arguments were changed")
    name, before = ", ".join(map(mask_and_reveal_hidden, changes.editors)), changes.get_arguments_before_first_edit()
    differences = () if before is None else list_value_differences(before, args)
    if not differences:
        return gettext("%(name)s changed the arguments") % {"name": name}
    shown = "; ".join(map(_format_argument_change, differences[:_SHOWN_DIFFERENCES]))
    if len(differences) > _SHOWN_DIFFERENCES:
        shown = gettext("%(changes)s and more") % {"changes": shown}
    return gettext("%(name)s changed %(changes)s") % {"name": name, "changes": shown}


def _format_argument_change(difference: ValueDifference) -> str:
    before, after = (
        masked_formatting.mask_and_shorten_to_one_line(
            "".join(piece.text for piece in difference.pieces if piece.change in ("same", change)), 60
        )
        for change in ("del", "ins")
    )
    path = masked_formatting.mask_and_shorten_to_one_line(difference.path, 60) or gettext("all arguments")
    if difference.hidden:
        return path
    if difference.kind == "changed":
        empty = pgettext("value of an argument", "(empty)")
        return f"{path}: {before or empty} → {after or empty}"
    said = {"path": path, "value": before or after}
    return (
        gettext("%(path)s added: %(value)s") if difference.kind == "added" else gettext("%(path)s removed: %(value)s")
    ) % said


def find_verification_error_and_quarantine(call: ToolCall) -> SealError | None:
    """Return why the call may not be shown: its digests, its seal or its session's seal do not match; else None.

    The session of an altered call is put under quarantine, so that its run does not wait for a decision.
    """
    try:
        row_seals.verify_rows((call, call.session))
        require_matching_digests(call)
    except SealError as error:
        if isinstance(error, IntegrityError) and error.is_alteration:
            quarantine.try_quarantine_session_if_altered(call.session_id)
        return error
    return None


def get_seal_error_sentence_and_label(error: SealError) -> tuple[str, str]:
    """Return a sentence and a label that say why a call is not shown."""
    if isinstance(error, IntegrityError) and error.is_alteration:
        return gettext("A call is not shown, because its data are not as they were written"), gettext("Altered data")
    return gettext("A call is not shown, because its seal cannot be checked"), gettext("Not verified")


def _translate_status(status: str) -> str:
    return str(translate_label(CallStatus(status)))


def _describe_what_call_waits_for(
    call: ToolCall, agreements: Sequence[Agreement], translate_status: Callable[[str], str]
) -> str:
    """Describe in a few words what the call waits for, and how many people have decided about it.

    Empty for a call that waits for the approval of one person, as the list of these calls says.
    """
    if len(agreements) > 1:
        return gettext("People disagree")
    asking = call.status == CallStatus.AWAITING_APPROVAL
    if call.approvals > 1:
        people = agreements[0].person_count if agreements else 0
        if asking and (not agreements or agreements[0].kind == DecisionKind.APPROVE):
            return gettext("%(number)s of %(needed)s approvals") % {"number": people, "needed": call.approvals}
        return gettext("%(people)s of %(needed)s decisions") % {"people": people, "needed": call.approvals}
    if asking:
        return gettext("Awaiting answer") if call.is_question else ""
    return translate_status(call.status)


def _explain_source_of_risk(risk: str, *, is_usual: bool) -> str:
    """Explain where the risk of a call comes from: its tool declares it, or it follows from what the tool may do."""
    if not is_usual:
        return gettext("The tool declares this risk.")
    if risk == Risk.MEDIUM:
        return gettext("The tool changes something outside of the session, as most tools do that need a decision.")
    return gettext("The tool only reads.")


def _render_usual_amount(unusual: UnusualAmount) -> SafeString:
    """Render what the amounts of the tool are at most, beside one that is far above them."""
    template = (
        gettext("usually at most %(amount)s") if unusual.are_completed else gettext("otherwise at most %(amount)s")
    )
    return build_html(
        '<span class="risk high" title="{}">{}{}</span>',
        unusual.explanation,
        render_icon("triangle-alert"),
        template % {"amount": unusual.highest},
    )


def _build_agreement_row(agreement: Agreement, call: ToolCall) -> AgreementRow:
    names = tuple(voice.actor for voice in agreement.voices)
    return AgreementRow(agreement.kind, agreement.person_count, names, call.is_question)


def _describe_other_arguments(call: ToolCall, args: Any, sentence: str, *, is_amount_shown: bool) -> str:
    """Describe the arguments that neither the sentence of a call nor its shown amount says; empty without any."""
    if call.is_question:
        return _describe_options_and_other_values(call, args, sentence)
    names = set(args) if isinstance(args, dict) else set()
    shown = {find_amount_argument_name(args) or "", "currency"} if is_amount_shown else set()
    return call_sentences.describe_arguments_not_in_sentence(args, names - shown, sentence)


def _describe_options_and_other_values(call: ToolCall, args: Any, sentence: str) -> str:
    """Describe the options of a question and what it says beside them: “By post · By courier · order: 17”."""
    value = args.get("value") if isinstance(args, dict) else None
    if not isinstance(value, dict) or not call_sentences.does_sentence_describe_call(call.sentence):
        return ""
    options = [
        masked_formatting.mask_and_shorten_to_one_line(choice.label, 60) for choice in list_question_choices(call)
    ]
    others = call_sentences.remove_sentence_from_question_args(
        {"value": remove_requested_answer_type(remove_listed_choices(call, value))}, call.sentence
    )
    described = call_sentences.describe_arguments_not_in_sentence(others, set(others or ()), sentence)
    return " · ".join(filter(None, (*options, described)))
