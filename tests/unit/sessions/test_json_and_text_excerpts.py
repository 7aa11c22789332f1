import pytest

from harness_site.sessions import json_and_text_excerpts


def test_text_on_one_line_differs_from_the_list_that_it_looks_like() -> None:
    assert (
        json_and_text_excerpts.mask_fields_and_format_value_as_inline_text({"a": "[1, 2]", "b": [1, 2]})
        == 'a "[1, 2]", b [1, 2]'
    )


@pytest.mark.parametrize("text", ["", "plain", "[not json", "7", '"x"', "{}", "[]"])
def test_text_without_json_structure(text: str) -> None:
    assert json_and_text_excerpts.parse_json_container(text) is None


def test_text_with_json_structure() -> None:
    assert json_and_text_excerpts.parse_json_container(' {"a": [1]}') == {"a": [1]}
