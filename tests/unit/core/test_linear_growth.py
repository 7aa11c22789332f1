"""Every renderer takes linear time for hostile texts, or stops at a budget."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from checkpoints.formats import parse_message_parts
from harness_site.core import masked_formatting, word_diff
from harness_site.core.masking import masker
from harness_site.core.rendering import (
    ansi_colors,
    json_tree,
    markdown,
    safe_display_text,
    syntax_highlighting,
    terminal_sequence_removal,
)
from harness_site.core.rendering.html_match_highlighting import mark_search_words_and_open_folds
from harness_site.search import text_extraction
from harness_site.sessions import json_and_text_excerpts
from harness_site.sessions.compare import message_alignment
from harness_site.sessions.compare.message_alignment import ComparedMessage
from tests.support import redos_texts
from tests.support.exhaustive_mode import choose_each, mark_all_but_each
from tests.support.linear_growth import MEGABYTE, assert_linear, processor_seconds

GROUPS = {
    "secrets": redos_texts.SECRETS,
    "controls": redos_texts.CONTROLS,
    "markdown": redos_texts.MARKDOWN,
    "code": redos_texts.CODE,
    "json": redos_texts.JSON,
}


def _marked(content: str) -> object:
    return mark_search_words_and_open_folds(ansi_colors.render_ansi_as_html(content), ("aaaa", "a://", "&"))


def _whole_tree(content: str) -> object:
    return json_tree.mask_and_render_json_tree(masked_formatting.parse_json_or_text(content), limit=None)


RENDERERS: dict[str, Callable[[str], Any]] = {
    "masked": masker.mask_text,
    "visible": safe_display_text.reveal_hidden_characters,
    "one line": terminal_sequence_removal.remove_terminal_sequences,
    "ansi": ansi_colors.render_ansi_as_html,
    "prose": markdown.mask_and_render_markdown,
    "beginning": json_and_text_excerpts.mask_and_format_text_beginning,
    "marked": _marked,
    "tree": _whole_tree,
    "structured": json_and_text_excerpts.parse_json_container,
    "copied": lambda content: json_tree.mask_and_dump_json(masked_formatting.parse_json_or_text(content), indent=2),
    "plain": lambda content: parse_message_parts.parts_to_text(parse_message_parts.parse_message_parts(content)),
    "indexed": lambda content: text_extraction.extract_masked_message_text(content, "id").text,
}


#: JSON text is what these read; of anything else they see at the first character that it is none.
JSON_READERS = {"tree", "structured", "copied", "plain", "indexed"}
#: What these do to a text depends on its HTML more than on its words.
HTML_READERS = {"marked", "beginning"}
PAIRS = [
    (name, group)
    for name in RENDERERS
    for group in GROUPS
    if (group == "json" or name not in JSON_READERS) and (group == "controls" or name not in HTML_READERS)
]


@pytest.mark.parametrize(("renderer", "group"), mark_all_but_each(3, PAIRS))
def test_renderers_take_linear_time(renderer: str, group: str) -> None:
    for name, make in GROUPS[group].items():
        small, large = make(2_500), make(20_000)
        before = processor_seconds(lambda: RENDERERS[renderer](small))  # noqa: B023 - called at once
        taken = processor_seconds(lambda: RENDERERS[renderer](large))  # noqa: B023
        # Eight times the text: quadratic work takes 64 times as long.
        # Short runs are not compared, because a busy machine doubles them.
        assert taken < max(0.5, 20 * before), f"{name}: {before:.2f} s, then {taken:.2f} s"


@pytest.mark.parametrize(
    ("renderer", "name"),
    [
        ("masked", "token beginnings"),
        ("masked", "digits"),
        ("visible", "zero bytes"),
        ("ansi", "colour parameters"),
        ("ansi", "colours"),
        ("copied", "many numbers"),
        ("indexed", "colons"),
    ],
)
def test_megabyte_is_read_in_seconds(renderer: str, name: str) -> None:
    assert_linear(RENDERERS[renderer], redos_texts.TEXTS[name], largest=MEGABYTE, seconds=5.0)


@pytest.mark.parametrize(
    "language",
    mark_all_but_each(3, ["json", "python", "yaml", "bash", "sql", "ruby", "html", "css", "java", "diff"]),
)
def test_code_of_any_language_is_highlighted_within_a_bound(language: str) -> None:
    for name, make in (redos_texts.CODE | redos_texts.JSON).items():
        code = make(syntax_highlighting.LIMIT)
        assert processor_seconds(lambda: syntax_highlighting.mask_and_highlight_code(code, language)) < 1.0, name  # noqa: B023


@pytest.mark.parametrize(
    "name", mark_all_but_each(2, ["schemes", "addresses with names", "open brackets", "open images", "wide tables"])
)
def test_markdown_of_maximum_size_is_rendered_within_a_bound(name: str) -> None:
    content = redos_texts.TEXTS[name](markdown.LIMIT)
    assert processor_seconds(lambda: markdown.mask_and_render_markdown(content)) < 2.5


def test_unrelated_texts_are_compared_within_a_bound() -> None:
    old = " ".join(f"a{number} x" for number in range(1400))
    new = " ".join(f"b{number} x" for number in range(1400))
    assert processor_seconds(lambda: word_diff.compute_word_diff(old, new)) < 5.0
    assert (
        processor_seconds(lambda: list(message_alignment.align_messages(_said(old.split()), _said(new.split())))) < 15.0
    )
    for name, make in choose_each(3, [*redos_texts.TEXTS.items()]):
        assert processor_seconds(lambda: word_diff.compute_word_diff(make(20_000), make(15_000))) < 3.0, name  # noqa: B023


def _said(bodies: list[str]) -> list[ComparedMessage]:
    return [
        ComparedMessage(at, "", "user", datetime.now(UTC), json.dumps({"content": body}))
        for at, body in enumerate(bodies)
    ]
