"""Facts of the context that a message names: project, branch, model and version of the program."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

from checkpoints.formats import parse_json
from harness_site.core.hidden_characters import make_text_for_column
from harness_site.search.models import Trait

#: Texts of which every body with a context contains one.
_HINTS: Final = ('"context":{', '"model":"')
_FIELDS: Final = {"git_branch": Trait.BRANCH, "model": Trait.MODEL, "program_version": Trait.PROGRAM}
#: Length of the column.
_COLUMN_LENGTH: Final = 255


def extract_project_and_model_facts_of_message(body: str) -> tuple[tuple[Trait, str], ...]:
    """Build the facts of a stored message.

    An imported message has them in its source, where only a change of the context is stored; the answer of a model may
    name its model itself, as those of some providers do.
    """
    if not any(hint in body for hint in _HINTS):
        return ()
    try:
        message = parse_json(body)
    except ValueError:
        return ()
    if not isinstance(message, dict):
        return ()
    source = message.get("source")
    context = source.get("context") if isinstance(source, dict) else None
    if not isinstance(context, dict):
        context = {"model": message.get("model")} if message.get("role") == "assistant" else {}
    facts = [(trait, make_text_for_column(context.get(name), _COLUMN_LENGTH)) for name, trait in _FIELDS.items()]
    folder = make_text_for_column(context.get("cwd"), _COLUMN_LENGTH).replace("\\", "/")
    return tuple(fact for fact in (*facts, (Trait.PROJECT, PurePosixPath(folder).name)) if fact[1])
