"""Sentence by which a hook refuses a call, to give the model the stored result of the call."""

from __future__ import annotations

import re
from typing import Final

_BEGINNING: Final = "The call was not made again: its result is known already. Continue with this result: "
#: What Claude Code writes before the sentence, in the results of calls and in messages of the agent.
_BEGINNING_WITH_HOOK_NAME: Final = re.compile(rf"(?:PreToolUse:\S{{1,300}} hook error: )?{re.escape(_BEGINNING)}")


def build_stored_result_sentence(result: str) -> str:
    """Build the sentence that gives a model the stored result of a call."""
    return f"{_BEGINNING}{result}"


def parse_stored_result_or_none(text: str) -> str | None:
    """Return the stored result in a text that is this sentence; None for any other text."""
    match = _BEGINNING_WITH_HOOK_NAME.match(text.lstrip())
    return None if match is None else text.lstrip()[match.end() :]
