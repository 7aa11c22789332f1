"""Sentences about what the tool of a call declares: its risk, its side effects, and which calls are the same one."""

from collections.abc import Collection, Iterable
from typing import Final, Protocol

from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from checkpoints.enums import KeyPolicy, KeyScope, Risk, SideEffect, get_default_risk
from checkpoints.models import ToolCall
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden

#: Risk → the reason of a call whose tool declares it.
_DECLARED_RISKS: Final[dict[str, str | Promise]] = {
    Risk.HIGH: _("Its tool declares that a mistake costs more than usual."),
    Risk.MEDIUM: _("Its tool declares this risk."),
    Risk.LOW: _("Its tool declares that a mistake costs less than usual."),
}
#: Definition of equal operations by the key policy of the tool: in a session, and in a workspace.
_SAME_OPERATION: Final[dict[str, tuple[str | Promise, str | Promise]]] = {
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


class KeyedCall(Protocol):
    """A call with the policy and the scope of its idempotency key."""

    @property
    def key_policy(self) -> str: ...

    @property
    def key_scope(self) -> str: ...


def describe_idempotency_rule(policy: str, scope: str) -> str:
    """Explain which calls are the same operation, by the key policy and its scope."""
    sentences = _SAME_OPERATION.get(policy)
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


def format_side_effect(name: str) -> str:
    """Return the label of a tool's side effect; an unknown one is returned as given."""
    return {"read": gettext("reads"), "write": gettext("writes"), "mutate": gettext("mutates")}.get(name, name)


def format_side_effects(effects: Iterable[str]) -> str:
    """Return the labels of side effects, separated by commas."""
    return ", ".join(map(format_side_effect, effects))


def describe_side_effects(effects: Collection[str]) -> str:
    """Describe what a call with these side effects does to the world outside its session, in words for people who do
    not know its tool."""
    if SideEffect.MUTATE in effects:
        return gettext("changes or deletes something outside of the session")
    if SideEffect.WRITE in effects:
        return gettext("writes something new")
    return gettext("only reads") if set(effects) == {SideEffect.READ} else format_side_effects(effects)
