"""Views of tools that read and change notebooks: cells with their sources and outputs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from harness_site.core.rendering.text_shortening import format_byte_size, get_byte_size
from harness_site.sessions.json_and_text_excerpts import parse_json_container
from harness_site.sessions.tool_views import file_change_parsing
from harness_site.sessions.tool_views.tool_view_types import ShownText, ToolUse, ToolView

#: Cells of one call that are displayed in a conversation, and on a page of its own.
_CELLS: Final = 6
_MOST_CELLS: Final = 200
#: A cell as Claude Code returns it: `<cell id="a1"><cell_type>markdown</cell_type># Title</cell id="a1">`.
_OPENING: Final = re.compile(r'<cell (?:id="([^"<>\n]{0,80})"|(\d{1,6}))>')
_TYPE: Final = re.compile(r"<cell_type>(\w{1,20})</cell_type>")
_LANGUAGE: Final = re.compile(r"<language>([\w+#-]{1,20})</language>")


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a notebook, not masked. `kind` is `code`, `markdown` or another type."""

    name: str
    kind: str
    language: str
    source: str
    output: str = ""


@dataclass(frozen=True, slots=True)
class ShownCell:
    """A cell for display: its texts are masked, `is_prose` tells that its source is Markdown."""

    name: str
    kind: str
    language: str
    source: str
    output: str = ""

    @property
    def is_prose(self) -> bool:
        return self.kind == "markdown"


def build_notebook_read_view(use: ToolUse) -> ToolView | None:
    """Show the cells of a notebook; None for a file without any."""
    path = file_change_parsing.get_path_argument_or_empty(use.args)
    if use.is_error or not use.result or not (path.lower().endswith(".ipynb") or "notebook_path" in use.args):
        return None
    cells = list(islice(_iterate_cells_of_result(use.result), _MOST_CELLS + 1))
    if not cells or len(cells) > _MOST_CELLS:
        return None
    count = ngettext("%(count)d cell", "%(count)d cells", len(cells)) % {"count": len(cells)}
    return _build_cells_view(use, path, cells, note=count, size=get_byte_size(use.result))


def build_notebook_edit_view(use: ToolUse) -> ToolView | None:
    """Show the new source of a cell, and what the tool answered."""
    path, source = (
        file_change_parsing.get_path_argument_or_empty(use.args),
        use.get_first_text_argument_or_empty("new_source"),
    )
    mode = use.get_first_text_argument_or_empty("edit_mode") or "replace"
    if not path or not isinstance(use.args.get("new_source", ""), str) or not (source or mode == "delete"):
        return None
    number = use.get_first_number_argument_or_none("cell_number", "cell_index")
    name = use.get_first_text_argument_or_empty("cell_id") or ("" if number is None else str(number))
    cell = Cell(name, use.get_first_text_argument_or_empty("cell_type") or "code", "python", source)
    note = {"insert": _("new cell"), "delete": _("cell deleted")}.get(mode, _("cell replaced"))
    return _build_cells_view(
        use, path, [cell], note=note, size=get_byte_size(source), returned=(use.result or "").strip()
    )


def _build_cells_view(
    use: ToolUse, path: str, cells: list[Cell], *, note: str, size: int, returned: str = ""
) -> ToolView:
    shown_cells = cells if use.is_whole else cells[:_CELLS]
    pairs = [
        (
            cell,
            use.mask_and_cut_text_for_display(cell.source.rstrip("\n")),
            use.mask_and_cut_text_for_display(cell.output.strip("\n"), is_terminal=True),
        )
        for cell in shown_cells
    ]
    answer = use.mask_and_cut_text_for_display(returned)
    texts: list[ShownText] = [text for _cell, source, output in pairs for text in (source, output)]
    return ToolView(
        "notebook",
        _("Notebook"),
        use.mask_line_for_display(path),
        chip=("bad", _("Failed")) if use.is_error else None,
        note=note,
        content={
            "cells": [
                ShownCell(
                    use.mask_line_for_display(cell.name),
                    use.mask_line_for_display(cell.kind),
                    cell.language,
                    source.text,
                    output.text,
                )
                for cell, source, output in pairs
            ],
            "returned": answer.text,
            "is_error": use.is_error,
        },
        is_complete=len(shown_cells) == len(cells) and answer.whole and all(text.whole for text in texts),
        size=size + answer.size,
    )


def _iterate_cells_of_result(result: str) -> Iterator[Cell]:
    """Yield the cells of a result: a notebook file, or cells in tags."""
    value = parse_json_container(result)
    if isinstance(value, dict) and isinstance(value.get("cells"), list):
        yield from _iterate_file_cells(value, value["cells"])
    elif value is None:
        yield from _iterate_cells_in_tags(result)


def _iterate_cells_in_tags(result: str) -> Iterator[Cell]:
    """Yield cells in tags; what follows a cell is its output."""
    opening = _OPENING.match(result.lstrip())
    if opening is None:
        return
    result = result.lstrip()
    while opening is not None:
        name = opening[1] if opening[1] is not None else opening[2]
        closing = f'</cell id="{name}">' if opening[1] is not None else f"</cell {name}>"
        end = result.find(closing, opening.end())
        if end < 0:
            end, after = len(result), len(result)
        else:
            after = end + len(closing)
        following = _OPENING.search(result, after)
        source, kind, language = result[opening.end() : end], "code", "python"
        if match := _TYPE.match(source):
            source, kind = source[match.end() :], match[1]
        if match := _LANGUAGE.match(source):
            source, language = source[match.end() :], match[1]
        yield Cell(name, kind, language, source, result[after : following.start() if following else len(result)])
        opening = following


def _iterate_file_cells(notebook: dict[str, Any], cells: list[Any]) -> Iterator[Cell]:
    """Yield the cells of a notebook file."""
    metadata = notebook.get("metadata")
    about = metadata.get("language_info", metadata.get("kernelspec")) if isinstance(metadata, dict) else None
    named = about.get("name", about.get("language")) if isinstance(about, dict) else None
    language = named if isinstance(named, str) else "python"
    for number, cell in enumerate(cells):
        if isinstance(cell, dict):
            name, kind = cell.get("id"), cell.get("cell_type")
            outputs = cell.get("outputs")
            yield Cell(
                name if isinstance(name, str) else str(number),
                kind if isinstance(kind, str) else "",
                language,
                _join_lines(cell.get("source")),
                "\n".join(filter(None, map(_format_cell_output, outputs if isinstance(outputs, list) else []))),
            )


def _format_cell_output(output: Any) -> str:
    """Read an output as text; one that has no text is named by its type and size."""
    if not isinstance(output, dict):
        return ""
    if output.get("output_type") == "error":
        traceback = output.get("traceback")
        lines = [line for line in traceback if isinstance(line, str)] if isinstance(traceback, list) else []
        return "\n".join(lines) or f"{output.get('ename', '')}: {output.get('evalue', '')}"
    data = output.get("data")
    if not isinstance(data, dict):
        return _join_lines(output.get("text")).rstrip("\n")
    named = [kind for kind in data if str(kind).startswith("image/") or ("text/plain" not in data)]
    sizes = [f"[{kind}, {format_byte_size(get_byte_size(_join_lines(data[kind])))}]" for kind in named]
    return "\n".join(filter(None, [_join_lines(data.get("text/plain")).rstrip("\n"), *sizes]))


def _join_lines(text: Any) -> str:
    """Join the lines of a text, which a notebook stores as one text or as a list."""
    if isinstance(text, list):
        return "".join(line for line in text if isinstance(line, str))
    return text if isinstance(text, str) else ""
