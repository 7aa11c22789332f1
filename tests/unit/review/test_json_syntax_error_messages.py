"""Sentences about invalid JSON that a person typed."""

from json import JSONDecodeError

import pytest

from checkpoints.formats import parse_json
from harness_site.review.json_syntax_error_messages import describe_json_error


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"stage":"won",}', "remove the comma at line 1, column 15"),
        ('{"a": 1,\n  }', "remove the comma at line 1, column 8"),
        ("[1, ]", "remove the comma at line 1, column 3"),
        ("won", "enter text in quotes at line 1, column 1"),
        ('{"a": fals }', "write false, or enter text in quotes, at line 1, column 7"),
        ("True", "write true, or enter text in quotes, at line 1, column 1"),
        ("None", "write null, or enter text in quotes, at line 1, column 1"),
        ('{\n  "a": won}', "enter text in quotes at line 2, column 8"),
        ("{stage: 1}", "enter text in quotes at line 1, column 2"),
        ("{'stage': 1}", "enter text in quotes at line 1, column 2"),
        ('{"a": }', "“}” cannot stand at line 1, column 7"),
        ('{"a": "b\\q"}', "“\\” cannot stand at line 1, column 9"),
        ("[1, 2", "it ends too early, at line 1, column 6"),
        ("", "it ends too early, at line 1, column 1"),
        ('["a" 1]', "a comma is missing before line 1, column 6"),
        ('{"a" 1}', "a colon is missing before line 1, column 6"),
        ('{"a": 1} x', "something follows its end at line 1, column 10"),
        ('["abc', "the quotes that begin at line 1, column 2 are not closed in this line"),
        ('["a\r\nb"]', "write the line break at line 1, column 4 as \\n, because it is in a text"),
    ],
)
def test_sentence_names_the_mistake_and_its_place(text: str, words: str) -> None:
    with pytest.raises(JSONDecodeError) as raised:
        parse_json(text)
    assert describe_json_error(raised.value) == f"This is not JSON: {words}."


def test_comma_is_named_as_by_newer_interpreters() -> None:
    error = JSONDecodeError("Illegal trailing comma before end of object", '{"stage":"won",}', 14)
    assert describe_json_error(error) == "This is not JSON: remove the comma at line 1, column 15."
