"""Results that people were shown masked or with what hides in them named, and leave as they were shown."""

from checkpoints.exceptions import InvalidInput
from checkpoints.models import Decision, LateResult, ToolCall
from harness_site.rendering.masking import MASK
from harness_site.rendering.text import visible


def meant(call: ToolCall, typed: str) -> str:
    """The result somebody means who was shown one with its secrets masked and its hidden characters named: where they
    left it as it was, the one that is stored. Raises `InvalidInput` for a mask inside of something else: it would be
    what the agent sees."""
    shown = _plain(typed)
    for text in _known(call):
        if _plain(visible(text)) == shown:
            return text
    if MASK not in typed:
        return typed
    raise InvalidInput(
        f"The result holds {MASK} in place of something that is secret to you. Leave it exactly as it was shown, or "
        "write a result without it."
    )


def _known(call: ToolCall) -> list[str]:
    """What the page may have suggested."""
    late = [row.result_text for row in LateResult.objects.filter(tool_call=call)]
    said = [row.result_text for row in Decision.objects.filter(tool_call=call)]
    return [text for text in late + said if text is not None]


def _plain(text: str) -> str:
    # Browsers send lines with another ending, and forms cut blanks off.
    return text.replace("\r\n", "\n").strip()
