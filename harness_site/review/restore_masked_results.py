"""Restoring suggested results that were displayed masked and submitted unchanged."""

from django.utils.translation import gettext as _

from checkpoints.calls.tool_result_and_verify_answer_types import LANDED_WITHOUT_RESULT
from checkpoints.exceptions import InvalidInput
from checkpoints.models import Decision, LateResult, ToolCall
from harness_site.core.masking.masker import MASK
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden


def restore_masked_result_or_refuse_mask(call: ToolCall, typed: str) -> str:
    """Return the stored result if the typed text equals its masked form, else the typed text.

    Raises `InvalidInput` if another text contains a mask, because the agent would see it.
    """
    typed_text = _normalize_line_ends_and_blanks(typed)
    for text in _list_late_and_decided_results_of_call(call):
        if _normalize_line_ends_and_blanks(mask_and_reveal_hidden(text)) == typed_text:
            return text
    if MASK not in typed:
        return typed
    raise InvalidInput(
        _(
            "The result contains {mask} in place of a secret that you cannot see. Leave it exactly as shown, or "
            "write one without it."
        ).format(mask=MASK)
    )


def restore_masked_result_or_say_unknown(call: ToolCall, typed: str) -> str:
    """Return the result that the agent gets: the typed one, or without one, that it is not known.

    Raises `InvalidInput` as `restore_masked_result_or_refuse_mask` does.
    """
    return restore_masked_result_or_refuse_mask(call, typed) if typed.strip() else LANDED_WITHOUT_RESULT


def _list_late_and_decided_results_of_call(call: ToolCall) -> list[str]:
    """List the results that the page may have suggested."""
    late_texts = [row.result_text for row in LateResult.objects.filter(tool_call=call)]
    decision_texts = [row.result_text for row in Decision.objects.filter(tool_call=call)]
    return [text for text in late_texts + decision_texts if text is not None]


def _normalize_line_ends_and_blanks(text: str) -> str:
    # Browsers send other line endings, and forms strip blanks.
    return text.replace("\r\n", "\n").strip()
