"""The arguments of a call as HTML: one form for all pages, on the screen and in print."""

from typing import Any

from harness_site.core.money_amounts_in_call_arguments import format_amount_argument
from harness_site.core.rendering.json_tree import RenderedTree, mask_and_render_json_tree


def mask_and_render_call_arguments(args: Any, *, limit: int | None = None, fold: bool = False) -> RenderedTree:
    """Render the arguments of a call as people read them.

    Amounts and numbers of things have separators, also inside of lists and objects, texts have no quotes, and a list of
    objects with short values is a table.

    Args:
        args: The arguments, with secrets.
        limit: Number of characters beyond which content is omitted with a note; None for all of it.
        fold: Whether long texts and lists are folded, as in a transcript, where all calls of a session have to fit.
    """
    return mask_and_render_json_tree(args, limit=limit, fold=fold, for_people=True, format_field=format_amount_argument)
