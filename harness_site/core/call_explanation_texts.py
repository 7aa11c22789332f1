"""Sentences that explain a call: its risk and effect, why its outcome is unknown, and which calls are the same one."""

from typing import Final, Protocol

from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from checkpoints.enums import (
    InterruptReason,
    KeyPolicy,
    KeyScope,
    Risk,
    SideEffect,
    get_default_risk,
)
from checkpoints.models import ToolCall
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden

#: Risk → the reason of a call whose tool declares it.
_DECLARED_RISKS: Final[dict[str, str | Promise]] = {
    Risk.HIGH: _("Its tool declares that a mistake costs more than usual."),
    Risk.MEDIUM: _("Its tool declares this risk."),
    Risk.LOW: _("Its tool declares that a mistake costs less than usual."),
}
#: Definition of equal operations by the key policy of the tool: in a session, and in a workspace.
SAME_OPERATION: Final[dict[str, tuple[str | Promise, str | Promise]]] = {
    KeyPolicy.ONCE: (
        _("The same tool with the same arguments runs once in this session. A second call gets this result."),
        _("The same tool with the same arguments runs once in this workspace. A second call gets this result."),
    ),
    KeyPolicy.UNANSWERED: 2
    * (
        _(
            "A call of the same tool with the same arguments gets this result, as long as no saved version has it. "
            "A later one runs again."
        ),
    ),
    KeyPolicy.CALL: 2
    * (_("Each call is an operation of its own. Only the same call id in the same step gets this result."),),
    KeyPolicy.FUNCTION: (
        _("A function of the tool decides which calls in this session are the same and get this result."),
        _("A function of the tool decides which calls in this workspace are the same and get this result."),
    ),
    KeyPolicy.STEP: 2 * (_("This is a step of a workflow. It runs once."),),
    "": 2
    * (
        _(
            "The agent’s program chose the idempotency key of this call. "
            "Another call with the same key gets this result."
        ),
    ),
}


_WHY: Final[dict[str, str | Promise]] = {
    InterruptReason.RUN_LOST: _("The process ended during this call"),
    InterruptReason.AMBIGUOUS_ERROR: _("The tool failed and may still have done it"),
    InterruptReason.CANCELLED: _("The call was cancelled while it ran"),
    InterruptReason.ABANDONED: _("The run continued without recording the outcome"),
    InterruptReason.FORKED: _("The outcome was unknown when the session was forked"),
    InterruptReason.UNREADABLE: _("The record of the call cannot be read"),
    InterruptReason.NO_RESULT: _("The imported transcript has no result of the call"),
}


class KeyedCall(Protocol):
    """A call with the policy and the scope of its idempotency key."""

    @property
    def key_policy(self) -> str: ...

    @property
    def key_scope(self) -> str: ...


def format_unknown_outcome_reason(reason: str, *, verifiable: bool, hook_could_not_tell: bool = False) -> str:
    """Explain why the outcome of a call is unknown, and whether a verify hook of its tool may tell or could not."""
    how = explain_verify_hook_ability(verifiable, hook_could_not_tell=hook_could_not_tell)
    return f"{format_interrupt_reason(reason)} · {how}"


def format_interrupt_reason(reason: str) -> str:
    """Explain why the outcome of a call is unknown."""
    return str(_WHY.get(reason, gettext("The reason is unknown")))


def describe_interruption(reason: str, error_type: str) -> str:
    """Explain why the outcome of a call is unknown, with the type of the error that its tool raised, if there is
    one."""
    if reason != InterruptReason.AMBIGUOUS_ERROR or not error_type:
        return format_interrupt_reason(reason)
    sentence = gettext("The tool failed with %(error)s and may still have done it")
    return sentence % {"error": mask_and_reveal_hidden(error_type)}


def explain_verify_hook_ability(verifiable: bool, *, hook_could_not_tell: bool) -> str:
    """Say whether a verify hook of the tool may tell the outcome of a call, or could not."""
    if hook_could_not_tell:
        return gettext("The tool’s own check could not tell")
    return gettext("The tool can check it") if verifiable else gettext("The tool cannot check it")


def describe_idempotency_rule(policy: str, scope: str) -> str:
    """Explain which calls are the same operation, by the key policy and its scope."""
    sentences = SAME_OPERATION.get(policy)
    return str(sentences[scope == KeyScope.WORKSPACE]) if sentences else mask_and_reveal_hidden(policy)


def find_unusual_risk(call: ToolCall) -> Risk | None:
    """Return the risk of a call if its tool declares another than its side effects mean.

    The usual one distinguishes no call from the others. A question has none.
    """
    is_usual = call.risk == get_default_risk(call.side_effects.split(","))
    return None if call.is_question or is_usual or call.risk not in Risk.values else Risk(call.risk)


def explain_declared_risk(risk: str) -> str:
    """Explain a risk that a tool declares."""
    return str(_DECLARED_RISKS[risk])


def describe_tool_effect(call: ToolCall) -> str:
    """Describe what the tool of a call may do: change, write or only read. Empty for questions and imported calls."""
    if call.is_question or call.is_imported:
        return ""
    effects = call.side_effects.split(",")
    if SideEffect.MUTATE in effects:
        return gettext("its tool changes or deletes something outside of the session")
    return gettext("its tool writes something new") if SideEffect.WRITE in effects else gettext("its tool only reads")
