"""Lines come back with the same text, though a line is stored without what the one before it says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from checkpoints.adapters.claude import transcript_line_delta_encoding

_VALUES: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(["", "=", "=uuid", "==", "a", "b"]), st.sampled_from([None, True, 1, 1.0, {"uuid": "a"}, ["="]])
)
_LINES = st.lists(st.dictionaries(st.sampled_from(["uuid", "parentUuid", "sessionId", "type"]), _VALUES), max_size=6)


@given(_LINES, st.integers(0, 6))
@example([{"sessionId": "a", "type": "b"}, {"type": "a"}], 1)
def test_lines_come_back_with_the_same_text(lines: list[dict[str, Any]], first: int) -> None:
    before, after = lines[:first], lines[first:]
    contents = transcript_line_delta_encoding.encode_lines(before, {})
    contents += transcript_line_delta_encoding.encode_lines(after, before[-1] if before else {})
    assert [json.dumps(line) for line in transcript_line_delta_encoding.decode_lines(contents)] == [
        json.dumps(line) for line in lines
    ]


def test_a_line_is_stored_without_what_the_line_before_says() -> None:
    lines: list[dict[str, Any]] = [
        {"parentUuid": None, "sessionId": "session", "cwd": "/srv/shop", "uuid": "first", "message": {"content": "a"}},
        {"parentUuid": "first", "sessionId": "session", "cwd": "/srv", "uuid": "second", "message": {"content": "b"}},
    ]
    contents = transcript_line_delta_encoding.encode_lines(lines, {})
    assert json.loads(contents[0]) == lines[0]
    assert json.loads(contents[1]) == [{**lines[1], "parentUuid": "=uuid", "sessionId": "="}]


@pytest.mark.parametrize("content", [b"{", b"1", b"[]", b"[1]", b'[{"a": "="}]', b'[{"a": "=uuid"}]'])
def test_what_is_no_line_after_the_one_before_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"no line|Expecting"):
        transcript_line_delta_encoding.decode_lines([b'{"b": 1}', content])
