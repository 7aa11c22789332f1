"""Classification of lines in Claude Code transcripts."""

from __future__ import annotations

from typing import Any

import pytest

from checkpoints.importers.claude_code import line_fields


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
def test_role_of_a_line(line: dict[str, Any], role: str) -> None:
    assert line_fields.determine_message_role(line, line["message"]) == role


@pytest.mark.parametrize(
    ("content", "prompt"),
    [
        ("Hello", "Hello"),
        ([{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}], "a\n\nb"),
        ("<command-name>/clear</command-name>", ""),
        ("<local-command-stdout></local-command-stdout>", ""),
        ("[Request interrupted by user]", ""),
        ("<b>bold</b> is not a command", "<b>bold</b> is not a command"),
        ("a < b", "a < b"),
        ([RESULT], ""),
        (None, ""),
        ([7], ""),
    ],
)
def test_prompts_written_by_a_person(content: Any, prompt: str) -> None:
    assert line_fields.extract_typed_prompt_or_empty(content) == prompt


def test_uuid_is_used_if_it_is_a_valid_key() -> None:
    assert line_fields.get_line_uuid_if_valid_key({"uuid": "u1"}) == "u1"
    for odd in ("", "a" * 300, "a\nb", "ü", 7):
        assert line_fields.get_line_uuid_if_valid_key({"uuid": odd}) is None


def test_digest_of_a_line_ignores_its_position() -> None:
    assert line_fields.compute_stable_content_digest(
        user("a", parentUuid="x")
    ) == line_fields.compute_stable_content_digest(user("a", parentUuid="y"))
    assert line_fields.compute_stable_content_digest(user("a")) != line_fields.compute_stable_content_digest(user("b"))


def test_envelope_contains_everything_but_the_content() -> None:
    line = user("Hello", cwd="/srv", extra={"a": 1})
    assert line_fields.copy_line_without_message_content(line) == {
        "type": "user",
        "uuid": "u1",
        "cwd": "/srv",
        "extra": {"a": 1},
        "message": {"role": "user"},
    }


def test_only_integers_are_token_counts() -> None:
    usage = {"input_tokens": 3, "output_tokens": True, "cache_read_input_tokens": "7", "service_tier": "standard"}
    assert line_fields.read_stated_token_counts({"usage": usage}) == {"input_tokens": 3}
    assert line_fields.read_stated_token_counts({"usage": None}) == {}


def test_unknown_line_types_are_named() -> None:
    assert list(line_fields.iterate_descriptions_of_unknown_types({"type": "hologram"})) == ["line hologram"]
    assert list(line_fields.iterate_descriptions_of_unknown_types({"uuid": "u"})) == ["line without a type"]
    assert list(line_fields.iterate_descriptions_of_unknown_types({"type": "progress"})) == []
    odd = [{"type": "smell"}, {"type": ["list"]}, "text", {"type": "text", "text": ""}]
    assert list(line_fields.iterate_descriptions_of_unknown_types(user(odd))) == [
        "block smell",
        "block without a type",
        "block str",
    ]
