import uuid

import pytest

from checkpoints import generate_and_validate_ids
from checkpoints.exceptions import InvalidIdentifier


@pytest.mark.parametrize(
    "value",
    [
        "a",
        "x" * 255,
        "世" * 255,
        "../../etc/passwd",
        "a/b:c.d e",
        "..",
        "%2e%2e",
        "سلام",
        "🌍🌍",
        " padded ",
        "O'Brien; DROP TABLE sessions--",
        "<script>",
        "e\u0301",
        "\u200f",
    ],
    ids=ascii,
)
def test_id_in_any_language_is_unchanged(value: str) -> None:
    assert generate_and_validate_ids.validate_id("session id", value) == value


@pytest.mark.parametrize(
    "value",
    ["", "   ", "x" * 256, "a\0b", "a\nb", "tab\t", "\x7f", "\ud800", "a\udfffb", None, 7, b"bytes", ["a"], True],
    ids=repr,
)
def test_invalid_id_is_refused(value: object) -> None:
    with pytest.raises(InvalidIdentifier):
        generate_and_validate_ids.validate_id("session id", value)


def test_refusal_of_a_long_id_truncates_it() -> None:
    with pytest.raises(InvalidIdentifier) as caught:
        generate_and_validate_ids.validate_id("session id", "x" * 100_000)
    assert len(str(caught.value)) < 300


def test_uuid7_is_a_version_7_uuid() -> None:
    made = generate_and_validate_ids.generate_uuid7()

    assert (made.version, made.variant) == (7, uuid.RFC_4122)


def test_uuid7_is_unique() -> None:
    assert len({generate_and_validate_ids.generate_uuid7() for _ in range(1000)}) == 1000


def test_uuid7_begins_with_the_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time_ns", lambda: 0x0123456789AB * 1_000_000)

    assert generate_and_validate_ids.generate_uuid7().hex[:12] == "0123456789ab"
