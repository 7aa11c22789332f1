"""What a decision of the audit trail means for its call: that it runs, does not run, or still waits."""

from __future__ import annotations

from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from checkpoints.enums import AuditKind, CallStatus, DecisionKind
from harness_site.audit.audit_trail_query import AuditEntry
from harness_site.audit.calls_of_audit_entries import AuditedCall

_CONSEQUENCES: Final[dict[str, Promise]] = {
    DecisionKind.APPROVE: gettext_lazy("It was allowed to run."),
    DecisionKind.EDIT: gettext_lazy("It still waited for an approval."),
    DecisionKind.REJECT: gettext_lazy("It does not run."),
    DecisionKind.RESPOND: gettext_lazy("It does not run: the agent gets the response."),
    DecisionKind.CONFIRM_LANDED: gettext_lazy("It counts as completed and does not run again."),
    DecisionKind.PROBE_LANDED: gettext_lazy("It counts as completed and does not run again."),
    DecisionKind.MARK_FAILED: gettext_lazy("It counts as failed and does not run again."),
    DecisionKind.PROBE_NOT_LANDED: gettext_lazy("It counts as failed and does not run again."),
    DecisionKind.PROBE_UNKNOWN: gettext_lazy("It still waited for a decision."),
    DecisionKind.APPROVE_RERUN: gettext_lazy("It was allowed to run once more."),
    DecisionKind.WITHDRAW: gettext_lazy("It waited for a decision again."),
}
#: Last final decision about a call, and status of the call → what has become of it.
_OUTCOMES: Final[dict[tuple[str, str], Promise]] = {
    (DecisionKind.APPROVE, CallStatus.APPROVED): gettext_lazy("It was allowed to run and has not run."),
    (DecisionKind.APPROVE, CallStatus.ISSUED): gettext_lazy("It is running."),
    (DecisionKind.APPROVE, CallStatus.COMPLETED): gettext_lazy("It ran."),
    (DecisionKind.APPROVE, CallStatus.FAILED): gettext_lazy("It ran and failed."),
    (DecisionKind.APPROVE, CallStatus.INTERRUPTED): gettext_lazy("It began to run, and its outcome is unknown."),
    (DecisionKind.APPROVE_RERUN, CallStatus.RERUN_APPROVED): gettext_lazy(
        "It was allowed to run once more and has not done so."
    ),
    (DecisionKind.APPROVE_RERUN, CallStatus.SUPERSEDED): gettext_lazy("It ran once more."),
}
#: Consequence of a decision that needs the same one of somebody else.
_WAITED_FOR_ANOTHER_PERSON: Final = gettext_lazy("It still waited: another person had to decide the same.")


def list_decisions_with_word_in_consequence(word: str) -> frozenset[str]:
    """List the decisions of which a consequence may have a word, which is in folded case, in the current language."""
    if word in str(_WAITED_FOR_ANOTHER_PERSON).casefold():
        return frozenset(_CONSEQUENCES)
    sentences = [*_CONSEQUENCES.items(), *((kind, sentence) for (kind, _status), sentence in _OUTCOMES.items())]
    return frozenset(kind for kind, sentence in sentences if word in str(sentence).casefold())


def describe_consequence_of_decision(entry: AuditEntry, call: AuditedCall | None) -> str:
    """Describe what the decision of an entry means for its call, and what has become of an approved one.

    Returns:
        A sentence; empty for other entries, for a call that is gone, and for a question, which never runs.
    """
    kind = entry.details.get("decision")
    if entry.kind != AuditKind.DECIDED or not isinstance(kind, str) or call is None or call.is_question:
        return ""
    if call.own is not None and not call.own.final and kind not in {DecisionKind.EDIT, DecisionKind.PROBE_UNKNOWN}:
        return str(_WAITED_FOR_ANOTHER_PERSON)
    if kind == call.last_final_decision and (outcome := _OUTCOMES.get((kind, call.status))) is not None:
        return str(outcome)
    return str(_CONSEQUENCES.get(kind, ""))
