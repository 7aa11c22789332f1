"""Sentences that say why the outcome of a call is unknown, and whether a verify hook of its tool may tell it."""

from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from checkpoints.enums import InterruptReason
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden

_WHY: Final[dict[str, str | Promise]] = {
    InterruptReason.RUN_LOST: _("The process ended during this call"),
    InterruptReason.AMBIGUOUS_ERROR: _("The tool failed and may still have done it"),
    InterruptReason.CANCELLED: _("The call was cancelled while it ran"),
    InterruptReason.ABANDONED: _("The run continued without recording the outcome"),
    InterruptReason.FORKED: _("The outcome was unknown when the session was forked"),
    InterruptReason.UNREADABLE: _("The record of the call cannot be read"),
    InterruptReason.NO_RESULT: _("The imported transcript has no result of the call"),
}


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
