"""How a call stands: everything the card shows, gathered once."""

from collections.abc import Sequence
from typing import Any, Final

from checkpoints import clock
from checkpoints.enums import DECIDING, UNDECIDED_CALL, CallStatus, DecisionKind, Role
from checkpoints.exceptions import CheckpointsError
from checkpoints.models import Decision, ToolCall
from checkpoints.queries import conversation, inbox, occasions
from checkpoints.queries.unreadable import read_part
from checkpoints.queries.voices import Agreement, agreements
from harness_site import wording
from harness_site.accounts.electorate import electorate_of
from harness_site.accounts.models import Membership
from harness_site.rendering.masking import masks
from harness_site.rendering.saying import safe_link
from harness_site.rendering.text import visible
from harness_site.review import change, prospect
from harness_site.review.answers import ANSWERS, Answer
from harness_site.review.forms import ApprovalForm, OutcomeForm
from harness_site.review.trace import Event, never_ran, trace

#: Messages of the transcript that are shown beside a call.
AROUND = 4
_UNFORESEEN: Final = "What follows cannot be foreseen: "
_DECIDED: Final[dict[str, str]] = {
    DecisionKind.APPROVE_RERUN: "Approved: one more run",
    DecisionKind.REJECT: "Rejected: it does not run",
    DecisionKind.RESPOND: "Answered instead: it does not run",
    DecisionKind.CONFIRM_LANDED: "Decided: it happened",
    DecisionKind.PROBE_LANDED: "Decided: it happened",
}
_APPROVED: Final[dict[str, str]] = {
    CallStatus.APPROVED: "Approved: it has not run yet",
    CallStatus.ISSUED: "Approved: it is running",
    CallStatus.COMPLETED: "Approved: it has run",
    CallStatus.FAILED: "Approved: it ran and failed",
}


def context(call: ToolCall, reader: Membership) -> dict[str, Any]:
    known = inbox.evidence(call)
    remembered = occasions.read(call.session_id)
    undecided = call.status in UNDECIDED_CALL
    decision = None if undecided else known.deciding
    no_events: list[Event] = []
    return {
        "call": call,
        "session": call.session,
        "args": wording.parsed(call.args),
        "secrets_hidden": masks(),
        "undecided": undecided,
        "asking": call.status == CallStatus.AWAITING_APPROVAL,
        "overdue": call.deadline is not None and call.deadline < clock.now(),
        "late_for": reader.role != Role.ADMIN,
        "heading": heading(call, decision),
        "known": known,
        "idle": never_ran(call, known),
        "resumed": _resumed(call, decision),
        "decision": decision,
        "agreed_before": _agreed_before(known, decision),
        "agreements": agreements(call, known.decisions, electorate_of(reader.workspace)),
        "edit": read_part(f"What people changed about call {call.pk}", lambda: _edit(call, known), None),
        "cited": read_part(f"The evidence about call {call.pk}", lambda: _cited(decision), None),
        "events": read_part(f"What happened to call {call.pk}", lambda: trace(call, known, remembered), no_events),
        "takeovers": remembered.takeovers,
        "around": read_part(f"The conversation around call {call.pk}", lambda: _around(call), None),
        "driver": prospect.driver(call.session),
        "waiting_run": prospect.waiting_run(call.session),
        "next_call": None if undecided else inbox.longest_waiting(call.workspace_id),
    }


def _around(call: ToolCall) -> conversation.Conversation | None:
    return conversation.around(call.session, call.step, size=AROUND)


def heading(call: ToolCall, decision: Decision | None) -> str:
    """The question that the card asks, or the answer it got."""
    if call.status == CallStatus.INTERRUPTED:
        return "Did this happen?"
    if call.status == CallStatus.AWAITING_APPROVAL:
        return "May this happen?"
    if decision is None:
        return "What became of this call"
    if decision.kind == DecisionKind.APPROVE:
        return _APPROVED.get(call.status, "Approved")
    return _DECIDED.get(decision.kind, "Decided: it did not happen")


def _resumed(call: ToolCall, decision: Decision | None) -> bool:
    """Whether the agent has used the decision."""
    ran = decision is not None and decision.kind == DecisionKind.APPROVE and call.status != CallStatus.APPROVED
    return ran or call.replay_count > 0


def form_for(shown: dict[str, Any]) -> OutcomeForm | ApprovalForm:
    """The form about a call that waits. A late result is most likely what the call returned, and where somebody has
    given a result already, others are asked whether they agree with that one."""
    call: ToolCall = shown["call"]
    said = {agreement.kind: agreement.voices[-1].result_text for agreement in shown["agreements"]}
    if shown["asking"]:
        answer = visible(said.get(DecisionKind.RESPOND) or "")
        initial = {"revision": call.revision, "args": change.editable(call.args), "answer": answer}
        return ApprovalForm(initial=initial, call=call)
    late = [one.result_text for one in shown["known"].late_results if one.success]
    result = said.get(DecisionKind.CONFIRM_LANDED) or (late[-1] if late else "")
    return OutcomeForm(initial={"revision": call.revision, "result": visible(result)})


def _agreed_before(known: inbox.Evidence, decision: Decision | None) -> list[Decision]:
    """Who else said the same before the decision that counted."""
    if decision is None:
        return []
    said: list[Decision] = []
    for made in known.decisions[: known.decisions.index(decision)]:
        if made.final and made.kind in DECIDING:
            said.clear()
        elif made.kind == decision.kind and not made.final:
            said.append(made)
    return said


def _edit(call: ToolCall, known: inbox.Evidence) -> dict[str, Any] | None:
    """What people changed about the arguments, against those that the model asked for."""
    edits = [made for made in known.decisions if made.kind == DecisionKind.EDIT]
    if not edits:
        return None
    differences = change.differences(change.asked_for(call), wording.parsed(call.args))
    return {"last": edits[-1], "differences": differences}


def _cited(decision: Decision | None) -> dict[str, Any] | None:
    """The evidence of the decision: a `link` that may be followed, a `text`, and the `rest` of what was given."""
    if decision is None or decision.evidence is None:
        return None
    given = wording.parsed(decision.evidence)
    if not isinstance(given, dict):
        return {"rest": given}
    link = safe_link(given.get("link"))
    text = given.get("text") if isinstance(given.get("text"), str) else ""
    said = {name for name, kept in (("link", link), ("text", text)) if kept} | {"file"}
    return {"link": link, "text": text, "rest": {name: value for name, value in given.items() if name not in said}}


def _answers(status: str) -> tuple[Answer, ...]:
    """What may be answered about a call of this status; nothing where the status is not known."""
    return tuple(ANSWERS.get(CallStatus(status), ())) if status in CallStatus.values else ()


def answers(
    call: ToolCall, agreed: tuple[Agreement, ...], decisions: Sequence[Decision], reader: str
) -> list[dict[str, Any]]:
    """Each answer with what it will cause; `mine` is the decision of a reader who has given it already.

    `edited` is whether the reader has changed the arguments, and therefore is not one of those who approve them.
    """
    editor = call.approvals > 1 and any(made.kind == DecisionKind.EDIT and made.actor == reader for made in decisions)
    by_kind = {agreement.kind: agreement for agreement in agreed}
    offered = [one for one in _answers(call.status) if _possible(call, one.kind)]
    unforeseen = dict.fromkeys((one.kind for one in offered), f"{_UNFORESEEN}its session cannot be read.")
    what = f"What follows from a decision about call {call.pk}"
    causes = read_part(what, lambda: _causes(call, by_kind, offered), unforeseen)
    return [
        {
            "kind": one.kind.value,
            "name": one.name,
            "does": one.does,
            "button": one.button,
            "then": causes[one.kind],
            "mine": _mine(by_kind.get(one.kind), reader),
            "edited": editor and one.kind == DecisionKind.APPROVE,
        }
        for one in offered
    ]


def _causes(
    call: ToolCall, by_kind: dict[DecisionKind, Agreement], offered: Sequence[Answer]
) -> dict[DecisionKind, str]:
    try:
        return prospect.prospect(call, by_kind)
    except CheckpointsError as error:
        return dict.fromkeys((one.kind for one in offered), f"{_UNFORESEEN}{error.detail}")


def _possible(call: ToolCall, kind: DecisionKind) -> bool:
    return kind != DecisionKind.EDIT or change.editable(call.args) is not None


def _mine(agreement: Agreement | None, reader: str) -> Decision | None:
    if agreement is None:
        return None
    return next((voice for voice in agreement.voices if voice.actor == reader), None)
