"""The work of every renderer grows in proportion to a hostile text, or stops at a budget."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from checkpoints.queries import alignment, blocks, words
from checkpoints.queries.alignment import Said
from harness_site.rendering import ansi, highlight, jsontree, markdown, masking, saying, text
from harness_site.rendering.marking import marked
from harness_site.search import extracting
from tests.support import hostile
from tests.support.growth import MEGABYTE, assert_linear, processor_seconds

GROUPS = {
    "secrets": hostile.SECRETS,
    "controls": hostile.CONTROLS,
    "markdown": hostile.MARKDOWN,
    "code": hostile.CODE,
    "json": hostile.JSON,
}


def _marked(content: str) -> object:
    return marked(ansi.html(content), ("aaaa", "a://", "&"))


def _whole_tree(content: str) -> object:
    return jsontree.tree(saying.stored_value(content), limit=None)


RENDERERS: dict[str, Callable[[str], Any]] = {
    "masked": masking.masked,
    "visible": text.uncovered,
    "ansi": ansi.html,
    "prose": markdown.prose,
    "beginning": saying.beginning,
    "marked": _marked,
    "tree": _whole_tree,
    "structured": saying.structured,
    "copied": lambda content: jsontree.dumped(saying.stored_value(content), indent=2),
    "plain": lambda content: blocks.plain(blocks.read(content)),
    "indexed": lambda content: extracting.of_message(content, "id").text,
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


@pytest.mark.parametrize(("renderer", "group"), PAIRS)
def test_work_grows_in_proportion_to_the_text(renderer: str, group: str) -> None:
    for name, make in GROUPS[group].items():
        small, large = make(10_000), make(80_000)
        before = processor_seconds(lambda: RENDERERS[renderer](small))  # noqa: B023 - called at once
        taken = processor_seconds(lambda: RENDERERS[renderer](large))  # noqa: B023
        # Eight times the text: quadratic work takes 64 times as long.
        assert taken < max(0.75, 20 * before), f"{name}: {before:.2f} s, then {taken:.2f} s"


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
def test_four_megabytes_are_read_in_seconds(renderer: str, name: str) -> None:
    assert_linear(RENDERERS[renderer], hostile.TEXTS[name], largest=4 * MEGABYTE)


@pytest.mark.parametrize("language", ["json", "python", "bash", "yaml", "sql", "ruby", "html", "css", "java", "diff"])
def test_code_of_any_language_is_coloured_within_a_bound(language: str) -> None:
    for name, make in hostile.TEXTS.items():
        code = make(highlight.LIMIT)
        assert processor_seconds(lambda: highlight.highlight(code, language)) < 1.0, name  # noqa: B023


@pytest.mark.parametrize("name", ["schemes", "addresses with names", "open brackets", "open images", "wide tables"])
def test_markdown_of_the_longest_size_is_read_within_a_bound(name: str) -> None:
    content = hostile.TEXTS[name](markdown.LIMIT)
    assert processor_seconds(lambda: markdown.prose(content)) < 2.5


def test_texts_without_anything_in_common_are_compared_within_a_bound() -> None:
    old = " ".join(f"a{number} x" for number in range(1400))
    new = " ".join(f"b{number} x" for number in range(1400))
    assert processor_seconds(lambda: words.diff(old, new)) < 5.0
    assert processor_seconds(lambda: list(alignment.align(_said(old.split()), _said(new.split())))) < 15.0
    for name, make in hostile.TEXTS.items():
        assert processor_seconds(lambda: words.diff(make(40_000), make(30_000))) < 3.0, name  # noqa: B023


def _said(bodies: list[str]) -> list[Said]:
    return [Said(at, "", "user", datetime.now(UTC), json.dumps({"content": body})) for at, body in enumerate(bodies)]
