import json
import re
from html import escape, unescape
from typing import Any

import pytest

from harness_site.core.masking.masker import MASK
from harness_site.core.rendering.json_tree import (
    MAX_INDENTED,
    MAX_NODES,
    has_clamped_value,
    mask_and_dump_json,
    mask_and_render_json_tree,
)


def test_object_is_rendered_as_a_labelled_list() -> None:
    assert mask_and_render_json_tree({"order": 17, "amount": "40.00"}).html == (
        '<dl class="kv"><dt><bdi>order</bdi></dt><dd dir="auto">17</dd>'
        '<dt><bdi>amount</bdi></dt><dd dir="auto">40.00</dd></dl>'
    )


@pytest.mark.parametrize(
    ("text", "number_or_word"),
    [("17", 17), ("true", True), ("null", None), ("[]", []), ("{}", {}), ('"a"', "a")],
)
def test_text_that_looks_like_another_value_is_in_quotes(text: str, number_or_word: object) -> None:
    as_text, as_value = _shown_values([text, number_or_word])
    assert as_text == f'"{text}"'
    assert as_value == text.strip('"')


@pytest.mark.parametrize("text", ["0017", "+5", ".5", "1e3", "1_000", " 17\n", "True", "None", "", " "])
def test_blank_and_numeric_texts_are_in_quotes(text: str) -> None:
    assert _shown_values([text]) == [f'"{text}"']


@pytest.mark.parametrize("text", ["[1, 2]", '["a"]', "[true]", "[-1]", "[[]]", ' {"a": 1}\n'])
def test_text_of_a_list_or_an_object_is_in_quotes(text: str) -> None:
    assert _shown_values([text]) == [f'"{text}"']


@pytest.mark.parametrize(
    "text",
    [
        "Bergen",
        "17 lamps",
        "40.00",
        "-1.50",
        "1.2.3",
        "2026-11-26",
        "[x",
        "[x]",
        "{x}",
        "nullable",
        '"a" or b',
        "-",
        "e3",
    ],
)
def test_other_texts_have_no_quotes(text: str) -> None:
    assert _shown_values([text]) == [text]


def _shown_values(values: list[object]) -> list[str]:
    html = mask_and_render_json_tree(values).html
    return [unescape(piece.split("</dd>")[0]) for piece in html.split('<dd dir="auto">')[1:]]


def test_hostile_keys_and_values_are_escaped() -> None:
    html = mask_and_render_json_tree({"<script>": "</dd><script>", "\u202ek": "\ud800"}).html
    assert "<script>" not in html
    assert "‹U+202E›k" in html
    assert "‹U+D800›" in html


def test_words_with_hyphens_stay_on_one_line() -> None:
    """A browser ends a line after each hyphen otherwise, and `-d` of a shell command becomes a sign and a letter."""
    html = mask_and_render_json_tree(["curl -d 'a' pay-ment", "2026-12-14", "no hyphen"]).html
    assert 'curl <span class="whole-word">-d</span> &#x27;a&#x27; <span class="whole-word">pay-ment</span>' in html
    assert html.count("<span") == 2


def test_short_codes_in_a_table_stay_on_one_line() -> None:
    rows = [{"sku": "LED-E14-4W", "name": "bulb E14-4"}, {"sku": "x-" * 13, "name": "plug"}]
    html = mask_and_render_json_tree(rows, fold=False).html
    assert '<td class="unbroken" data-name="sku" dir="auto">LED-E14-4W</td>' in html
    assert html.count("unbroken") == 1


def test_long_list_is_folded_and_complete() -> None:
    html = mask_and_render_json_tree({"all": list(range(100))}).html
    assert "<summary>100 items</summary>" in html
    assert '<dd dir="auto">99</dd>' in html


def test_long_text_is_folded_and_complete() -> None:
    found = mask_and_render_json_tree({"text": "x" * 2000})
    assert found.whole
    assert f"{'x' * 2000}</details>" in found.html


def test_size_limit_is_reported_with_the_missing_size() -> None:
    found = mask_and_render_json_tree({"text": "x" * 20_000}, limit=1000)
    assert not found.whole
    assert found.size == 20_012
    assert '<span class="omission">… 19 KB more</span>' in found.html


def test_entry_limit_is_reported_with_the_missing_entries() -> None:
    found = mask_and_render_json_tree({str(number): "x" * 100 for number in range(100)}, limit=1000)
    assert not found.whole
    assert '<dd class="omission">90 more</dd>' in found.html


def test_tree_without_a_limit_is_complete() -> None:
    found = mask_and_render_json_tree({str(number): "x" * 100 for number in range(100)}, limit=None)
    assert found.whole
    assert found.html.count("<dd") == 100


def test_deep_nesting_is_shown_as_text() -> None:
    value: object = "bottom"
    for _ in range(190):
        value = [value]
    assert "[" * 182 + "&quot;bottom&quot;" in mask_and_render_json_tree(value).html


def test_tree_without_folding_is_expanded() -> None:
    html = mask_and_render_json_tree({"few": list(range(12)), "text": "x" * 400}, limit=None, fold=False).html
    assert "<details" not in html
    assert html.count("<dd") == 14
    assert "x" * 400 in html


def test_long_list_is_complete_and_has_a_control_where_nothing_is_folded() -> None:
    value = {"all": list(range(100)), "rows": [{"cells": [1] * 41}], "named": {"few": [2] * 39, "last": 3}}
    html = mask_and_render_json_tree(value, limit=None, fold=False).html
    assert html.count("<dd") == 187
    assert re.findall("Show all [0-9]+ values", html) == ["Show all 100 values", "Show all 41 values"]


def test_value_with_too_many_entries_is_shown_as_json_text() -> None:
    value = {"items": [{"n": number} for number in range(MAX_NODES)]}
    found = mask_and_render_json_tree(value, limit=None)
    assert found.whole
    assert "<dl" not in found.html
    text = unescape(found.html.split("<pre", 1)[1].split(">", 1)[1].removesuffix("</pre>"))
    assert json.loads(text) == value


def test_copied_json_is_compact_if_indentation_would_dominate() -> None:
    deep: object = 1
    for _ in range(150):
        deep = [deep]
    many = [deep] * (MAX_INDENTED // 100)
    assert mask_and_dump_json(many, indent=2) == json.dumps(many)
    assert mask_and_dump_json([1, 2], indent=2) == "[\n  1,\n  2\n]"


@pytest.mark.parametrize(
    ("text", "is_clamped"), [("a" * 3001, True), ("a" * 3000, False), ("a\n" * 41, True), ("a\n" * 40, False)]
)
def test_long_text_is_complete_and_has_a_control_where_nothing_is_folded(text: str, is_clamped: bool) -> None:
    html = mask_and_render_json_tree({"note": text}, limit=None, fold=False).html
    assert text in html
    assert (f"Show all {len(text):,} characters" in html) == is_clamped
    assert has_clamped_value({"note": text}) == is_clamped


def test_values_are_written_for_people_where_nothing_is_folded() -> None:
    value: dict[str, Any] = {
        "on": True,
        "off": False,
        "at": None,
        "bcc": [],
        "zip": "50674",
        "note": "",
        "blank": "  ",
        "count": 12,
    }
    html = mask_and_render_json_tree(value, limit=None, fold=False).html
    shown = re.findall(r'<dd dir="auto">(.*?)</dd>', html)
    assert shown == ["yes", "no", "–", "(none)", "50674", "(empty)", "&quot;  &quot;", "12"]


def test_list_of_objects_is_a_table_where_nothing_is_folded() -> None:
    items = [
        {"sku": "CHR-09", "quantity": 4, "note": "a<b"},
        {"sku": "CBL-2M", "api_key": "k-123456", "quantity": None},
    ]
    html = mask_and_render_json_tree({"items": items}, limit=None, fold=False).html
    assert re.findall('<th scope="col"><bdi>(.*?)</bdi>', html) == ["sku", "quantity", "note", "api_key"]
    rows = re.findall('<tr><th scope="row">(.)</th>(.*?)</tr>', html)
    cells = [re.findall("<td[^>]*>(.*?)</td>", row) for _number, row in rows]
    assert cells == [["CHR-09", "4", "a&lt;b", ""], ["CBL-2M", "–", "", MASK]]
    assert "rows-of-objects" not in mask_and_render_json_tree({"items": items}, limit=None).html


@pytest.mark.parametrize(("price", "css_class"), [("39.90", " narrow"), ("unchanged since May", "")])
def test_table_of_few_short_columns_is_narrow(price: str, css_class: str) -> None:
    item = {"sku": "LMP-40", "quantity": 12, "unit_price": price}
    html = mask_and_render_json_tree({"items": [item]}, limit=None, fold=False).html
    assert f'<div class="rows-of-objects{css_class}"><table>' in html


@pytest.mark.parametrize(
    "item", [{"a": [1]}, {"a": "x" * 41}, {"a": "x\ny"}, {f"n{number}": "x" * 8 for number in range(9)}, {}, 1]
)
def test_list_of_values_that_have_no_room_in_a_table_is_a_list(item: Any) -> None:
    assert "rows-of-objects" not in mask_and_render_json_tree([{"a": 1}, item], limit=None, fold=False).html


ARTICLE = "# Returns\n\nSend it back within **30 days** & keep the slip.\n\n- Pack it\n- Send it"


def test_text_in_markdown_is_formatted_with_a_control_for_its_source() -> None:
    html = mask_and_render_json_tree({"body": ARTICLE}, limit=None, fold=False).html
    assert "<h3>Returns</h3>" in html
    assert "<strong>30 days</strong>" in html
    assert f'<div class="source">{escape(ARTICLE)}</div>' in html
    assert ("Show the source" in html, "clamped" in html) == (True, False)
    long = mask_and_render_json_tree({"body": ARTICLE + "\n\nMore." * 40}, limit=None, fold=False).html
    assert "Show all " in long


@pytest.mark.parametrize(
    "text",
    [
        "# make the table\nimport os\n\n# run it\nprint(**options, **more)",
        "Dear Mara,\n\nplease stop using it.\n\nKind regards",
        "* one\n* two",
        "**bold** on one line, [a link](https://example.org)",
    ],
)
def test_other_text_is_shown_as_it_is(text: str) -> None:
    html = mask_and_render_json_tree({"body": text}, limit=None, fold=False).html
    assert "formatted-text" not in html
    assert escape(text) in html
