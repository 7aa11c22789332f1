"""Texts about the effect of each answer, derived from the library's resume preview."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from checkpoints.db import clock
from checkpoints.decisions.decide import RESULT_GIVING_KINDS, RULES
from checkpoints.enums import CallStatus, DecisionKind, RunStatus
from checkpoints.models import Run, Session, ToolCall
from checkpoints.resume import resume_preview
from checkpoints.store.database_client_state import Store
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden
from harness_site.review.decision_options import list_answer_options
from harness_site.sessions.selectors.multi_person_decisions import Agreement

#: Decisions after which a call runs.
APPROVING_KINDS = frozenset({DecisionKind.APPROVE, DecisionKind.APPROVE_RERUN})


def find_live_owner_run(session: Session) -> Run | None:
    """Return the run that owns the session and still has a valid lease."""
    owner = session.owner
    return owner if owner is not None and owner.has_owning_status and owner.lease_expires_at > clock.now() else None


def find_run_waiting_for_decision(session: Session) -> Run | None:
    """Return the live run that waits for a decision and continues by itself."""
    run = find_live_owner_run(session)
    return run if run is not None and run.status == RunStatus.WAITING else None


def preview_decision_effects_by_kind(
    call: ToolCall, agreed: Sequence[Agreement], reader: str
) -> dict[DecisionKind, str]:
    """Describe the effect of each decision kind of the user `reader` on an undecided call.

    Raises `CheckpointsError` if the session cannot be read.
    """
    session = call.session
    kinds = [answer.kind for answer in list_answer_options(call)]
    store = Store(workspace=session.workspace.slug, workspace_id=session.workspace_id)
    preview = resume_preview.preview_resume(store, session.session_id)
    if session.finished:
        text = _("The session is {status} and does not continue. The decision is stored with the call.")
        return dict.fromkeys(kinds, text.format(status=session.get_status_display().lower()))
    others = sum(not _is_same_call(call, other) for other in preview["ask"])
    effects = _format_effects_by_kind(call, preview) if not others else {}
    paused_text = ngettext(
        "The session stays paused: {number} other call needs a decision.",
        "The session stays paused: {number} other calls need a decision.",
        others,
    ).format(number=others)
    texts = {}
    for kind in kinds:
        effect, joined = effects.get(kind, paused_text), _find_agreement_to_join(agreed, kind, reader)
        missing = count_people_missing_after_answer(call, kind, agreed, reader)
        texts[kind] = _format_missing_approvals(call, kind, missing) or effect
        if texts[kind] == effect and joined is not None and kind in RESULT_GIVING_KINDS:
            texts[kind] = _("With exactly the text of {name}: {effect} With another text, nothing changes yet.").format(
                name=mask_and_reveal_hidden(joined.voices[-1].actor), effect=effect
            )
    return texts


def count_people_missing_after_answer(
    call: ToolCall, kind: DecisionKind, agreed: Sequence[Agreement], reader: str
) -> int:
    """Count the people who have to decide the same after this answer of the user `reader`."""
    if RULES[kind].by_one:
        return 0
    joined = _find_agreement_to_join(agreed, kind, reader)
    return max(call.approvals - (0 if joined is None else joined.person_count) - 1, 0)


def _find_agreement_to_join(agreed: Sequence[Agreement], kind: DecisionKind, reader: str) -> Agreement | None:
    """Return the agreement of most people on an answer of this kind, without those that the reader is part of."""
    others = [one for one in agreed if one.kind == kind and reader not in one.persons]
    return max(others, key=lambda one: one.person_count, default=None)


def _format_missing_approvals(call: ToolCall, kind: DecisionKind, missing: int) -> str:
    """Describe the approvals that are missing after this answer; empty if the call stops waiting."""
    if kind == DecisionKind.EDIT and call.is_question:
        return ngettext(
            "The agent gets nothing yet. The changed value needs {number} approval.",
            "The agent gets nothing yet. The changed value needs {number} approvals, of people who have not changed "
            "it.",
            call.approvals,
        ).format(number=call.approvals)
    if kind == DecisionKind.EDIT:
        return ngettext(
            "Nothing runs. The changed call needs {number} approval.",
            "Nothing runs. The changed call needs {number} approvals, of people who have not changed it.",
            call.approvals,
        ).format(number=call.approvals)
    if not missing:
        return ""
    if kind in APPROVING_KINDS and not call.is_question:
        text = ngettext(
            "Nothing runs yet: one more person has to approve.",
            "Nothing runs yet: {number} more people have to approve.",
            missing,
        )
    else:
        text = ngettext(
            "Nothing changes yet: one more person has to decide the same.",
            "Nothing changes yet: {number} more people have to decide the same.",
            missing,
        )
    return text.format(number=missing)


def _format_effects_by_kind(call: ToolCall, preview: Mapping[str, Any]) -> dict[DecisionKind, str]:
    """Describe what the run does next, as whole sentences: who continues, with what, and how it goes on."""
    start = _describe_when_agent_continues(call)
    end = _format_names_of_other_calls_to_run(preview["run"])
    actions = {
        DecisionKind.CONFIRM_LANDED: _(
            "The agent goes on with the result that you enter. Without one, it is told that the result is not known."
        ),
        DecisionKind.MARK_FAILED: _("The agent is told that this call did not happen, and your reason."),
        DecisionKind.APPROVE_RERUN: _("It runs {tool} once more, and the agent gets the new result.").format(
            tool=call.tool
        ),
        DecisionKind.APPROVE: _("It runs {tool}, and the agent gets the result.").format(tool=call.tool),
        DecisionKind.REJECT: _("The agent is told that the call was refused, and why."),
        DecisionKind.RESPOND: _("The agent gets your answer as the result of this call."),
    }
    if call.is_question:
        actions = {
            DecisionKind.APPROVE: _("The agent gets the changed value.")
            if call.has_changed_args
            else _("The agent gets the value true."),
            DecisionKind.REJECT: _("The agent gets the value false."),
            DecisionKind.RESPOND: _("The agent gets your answer."),
        }
        end = ""
    texts = {kind: [start, action, end] for kind, action in actions.items()}
    for kind in APPROVING_KINDS & texts.keys() if not call.is_question else ():
        texts[kind].append(_("Once it has started, the approval cannot be withdrawn."))
    return {kind: " ".join(filter(None, sentences)) for kind, sentences in texts.items()}


def _describe_when_agent_continues(call: ToolCall) -> str:
    run = find_live_owner_run(call.session)
    if run is not None and run.status == RunStatus.WAITING:
        return _("Run {number} on {host} is waiting and continues at once.").format(number=run.number, host=run.host)
    if run is not None and call.status == CallStatus.AWAITING_APPROVAL and run.pk == call.run_id:
        text = _("Run {number} on {host} asked for this and continues when it checks again.")
        return text.format(number=run.number, host=run.host)
    return _("This takes effect as soon as a process continues the session, which may be at once.")


def advise_after_used_decision(kind: str, *, is_question: bool, number: int = 1) -> str:
    """Say what can be done about a wrong decision that a run has used.

    Args:
        kind: Kind of the decision that is in force.
        is_question: Whether it is the answer to a question of a framework, whose tool never ran.
        number: Number of the calls that have this decision.
    """
    if is_question:
        return ngettext(
            "The agent has continued with this answer. Check what it has done since then.",
            "The agents have continued with these answers. Check what they have done since then.",
            number,
        )
    if kind in {DecisionKind.REJECT, DecisionKind.RESPOND}:
        return ngettext(
            "The call did not run, so its tool changed nothing. Check what the agent has done since then.",
            "The calls did not run, so their tool changed nothing. Check what the agents have done since then.",
            number,
        )
    if kind == DecisionKind.MARK_FAILED:
        return ngettext(
            "The agent was told that the call did not happen. If it did, correct its effect in the system that the "
            "tool changed.",
            "The agents were told that the calls did not happen. If they did, correct their effects in the system that "
            "the tool changed.",
            number,
        )
    if kind == DecisionKind.CONFIRM_LANDED:
        return ngettext(
            "The agent was told that the call happened. If it did not, do what is missing yourself.",
            "The agents were told that the calls happened. If they did not, do what is missing yourself.",
            number,
        )
    return ngettext(
        "Correct the effect itself, in the system that the tool changed.",
        "Correct the effects themselves, in the system that the tool changed.",
        number,
    )


def _is_same_call(call: ToolCall, other: Mapping[str, Any]) -> bool:
    return (other["step"], other["call_id"], other["attempt"]) == (call.step, call.call_id, call.attempt)


def _format_names_of_other_calls_to_run(calls: list[Mapping[str, Any]]) -> str:
    names = ", ".join(call["tool_name"] for call in calls)
    return _("It also runs {tools}.").format(tools=names) if names else ""
