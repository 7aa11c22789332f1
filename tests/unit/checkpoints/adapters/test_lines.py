"""What a line of Claude Code is."""

from __future__ import annotations

from typing import Any

import pytest

from checkpoints.adapters.claude_code import lines


def user(content: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "user", "uuid": "u1", "message": {"role": "user", "content": content}, **fields}


RESULT = {"type": "tool_result", "tool_use_id": "call_1", "content": "x"}


@pytest.mark.parametrize(
    ("line", "role"),
    [
        (user("Hello"), "user"),
        (user([RESULT]), "tool"),
        (user([RESULT, {"type": "text", "text": "and this"}]), "user"),
        (user("Caveat", isMeta=True), "system"),
        (user("Summary", isCompactSummary=True), "system"),
        (user([]), "user"),
    ],
)
def test_who_speaks(line: dict[str, Any], role: str) -> None:
    assert lines.role(line, line["message"]) == role


@pytest.mark.parametrize(
    ("content", "prompt"),
    [
        ("Hello", "Hello"),
        ([{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}], "a\n\nb"),
        ("<command-name>/clear</command-name>", ""),
        ("<local-command-stdout></local-command-stdout>", ""),
        ("[Request interrupted by user]", ""),
        ("<b>bold</b> is not a command", ""),
        ("a < b", "a < b"),
        ([RESULT], ""),
        (None, ""),
        ([7], ""),
    ],
)
def test_what_a_person_wrote(content: Any, prompt: str) -> None:
    assert lines.prompt(content) == prompt


def test_a_uuid_names_a_line_and_a_digest_one_that_has_none() -> None:
    assert lines.key({"uuid": "u1"}) == "u1"
    bare, other = {"type": "mode", "mode": "plan"}, {"type": "mode", "mode": "edit"}
    assert lines.key(bare) == lines.key(dict(bare)) != lines.key(other)
    for odd in ("", "a" * 300, "a\nb", "ü", 7):
        assert lines.key({"uuid": odd}).startswith("line:")


def test_the_place_of_a_line_is_no_part_of_what_it_says() -> None:
    assert lines.fingerprint(user("a", parentUuid="x")) == lines.fingerprint(user("a", parentUuid="y"))
    assert lines.fingerprint(user("a")) != lines.fingerprint(user("b"))


def test_the_envelope_keeps_everything_but_the_content() -> None:
    line = user("Hello", cwd="/srv", extra={"a": 1})
    assert lines.envelope(line) == {
        "type": "user",
        "uuid": "u1",
        "cwd": "/srv",
        "extra": {"a": 1},
        "message": {"role": "user"},
    }


def test_only_counts_count() -> None:
    usage = {"input_tokens": 3, "output_tokens": True, "cache_read_input_tokens": "7", "service_tier": "standard"}
    assert lines.tokens({"usage": usage}) == {"input_tokens": 3}
    assert lines.tokens({"usage": None}) == {}


def test_unknown_types_are_named() -> None:
    assert list(lines.unknown({"type": "hologram"})) == ["line hologram"]
    assert list(lines.unknown({"uuid": "u"})) == ["line without a type"]
    assert list(lines.unknown({"type": "progress"})) == []
    odd = [{"type": "smell"}, {"type": ["list"]}, "text", {"type": "text", "text": ""}]
    assert list(lines.unknown(user(odd))) == ["block smell", "block without a type", "block str"]
