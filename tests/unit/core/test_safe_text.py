import json

import pytest

from harness_site.core import call_sentences
from harness_site.core.hidden_characters import (
    escape_hidden_in_json,
    format_on_one_line,
    has_hidden_characters,
    replace_hidden_characters_by_names,
    replace_unencodable_characters,
)
from harness_site.core.rendering import markdown, safe_display_text
from tests.support.hidden_character_texts import HARMLESS, HOSTILE, list_hidden_characters


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hidden_characters_are_replaced(text: str) -> None:
    shown = replace_hidden_characters_by_names(text)
    assert list_hidden_characters(shown) == set()
    assert shown.encode().decode() == shown
    assert replace_hidden_characters_by_names(shown) == shown
    assert list_hidden_characters(format_on_one_line(text)) == set()
    assert not set("\n\t") & set(format_on_one_line(text))


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_json_keeps_its_value(text: str) -> None:
    value = {text: [text, "\u202e"]}
    escaped = escape_hidden_in_json(json.dumps(value, ensure_ascii=False))
    assert list_hidden_characters(escaped) == set()
    assert json.loads(escaped) == value


@pytest.mark.parametrize("text", HARMLESS)
def test_required_characters_are_kept(text: str) -> None:
    assert replace_hidden_characters_by_names(text) == text
    assert not has_hidden_characters(text)


@pytest.mark.parametrize(
    ("hidden", "shown"),
    [
        ("adm\u200din", "adm‹U+200D›in"),
        ("a\u200cb", "a‹U+200C›b"),
        ("👩\u200da", "👩‹U+200D›a"),
        ("👩\u200d\u200d🔬", "👩‹U+200D›‹U+200D›🔬"),
        ("a\ufe0f", "a‹U+FE0F›"),
        ("😀\ufe0f\ufe0f", "😀\ufe0f‹U+FE0F›"),
        ("葛\U000e0100\U000e0101", "葛\U000e0100‹U+E0101›"),
    ],
)
def test_joiners_and_selectors_are_kept_only_where_effective(hidden: str, shown: str) -> None:
    assert replace_hidden_characters_by_names(hidden) == shown
    assert has_hidden_characters(hidden)


def test_characters_invalid_in_urls_are_replaced() -> None:
    assert replace_unencodable_characters("a\ud800\x00b") == "a\ufffd\ufffdb"


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_sentence_of_names_and_values_is_one_safe_line(text: str) -> None:
    made = call_sentences.build_default_call_sentence(text, {text: text, "b": {text: [text]}})
    assert list_hidden_characters(made) == set()
    assert "\n" not in made


def test_html_entity_does_not_restore_a_replaced_character() -> None:
    assert list_hidden_characters(markdown.mask_and_render_markdown("a&#x202e;b&zwnj;c `&#8294;`")) == set()


@pytest.mark.parametrize("address", ["http://x/\ud800", "http://x/\u202egpj.exe", "http://x/\x01", "http://x\x00"])
def test_url_with_hidden_characters_is_not_linked(address: str) -> None:
    assert safe_display_text.mask_safe_link_or_return_empty(address) == ""
