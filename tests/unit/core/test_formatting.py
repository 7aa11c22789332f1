from datetime import UTC, datetime, timedelta, timezone

import pytest

from checkpoints.enums import CallStatus, DecisionKind, InterruptReason, RunStatus, SessionStatus
from harness_site.core import formatting

NOW = datetime(2026, 11, 21, 10, 42, 7, tzinfo=UTC)
KINDS = (SessionStatus, RunStatus, CallStatus, DecisionKind)
SHAPES = {"ok", "bad", "wait", "run", "unknown", "off"}


@pytest.mark.parametrize("value", sorted({str(value) for kind in KINDS for value in kind}))
def test_every_status_has_a_shape_and_a_label(value: str) -> None:
    assert value in formatting.STATES
    shape, word = formatting.format_status_chip(value)
    assert shape in SHAPES
    assert word


def test_only_unknown_outcomes_are_hatched() -> None:
    hatched = {value for value, (shape, _) in formatting.STATES.items() if shape == "unknown"}
    assert hatched == {SessionStatus.NEEDS_REVIEW, CallStatus.INTERRUPTED, DecisionKind.PROBE_UNKNOWN}


def test_unknown_status_is_shown_as_stored() -> None:
    assert formatting.format_status_chip("half_done") == ("off", "Half done")


@pytest.mark.parametrize("reason", InterruptReason)
def test_every_interrupt_reason_has_a_label(reason: str) -> None:
    assert not formatting.format_unknown_outcome_reason(reason, verifiable=False).startswith("The reason is unknown")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.21, "210 ms"),
        (3.4, "3.4 s"),
        (42, "42 s"),
        (60, "1 min"),
        (3599, "59 min"),
        (7200, "2 h"),
        (86400, "1 day"),
        (200000, "2 days"),
    ],
)
def test_duration(seconds: float, words: str) -> None:
    assert formatting.format_duration(seconds) == words


@pytest.mark.parametrize(
    ("seconds", "words"), [(-3, "just now"), (4, "just now"), (5, "5 s ago"), (42, "42 s ago"), (2520, "42 min ago")]
)
def test_ago(seconds: int, words: str) -> None:
    assert formatting.format_time_ago(NOW - timedelta(seconds=seconds), NOW) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (3600, "due in 1 h"),
        (59.9, "due in 59 s"),
        (0.4, "due in 0 s"),
        (0, "overdue for 0 s"),
        (-61, "overdue for 1 min"),
        (-200_000, "overdue for 2 days"),
    ],
)
def test_due(seconds: float, words: str) -> None:
    assert formatting.format_deadline(NOW + timedelta(seconds=seconds), NOW) == words


def test_every_decision_kind_has_a_verb() -> None:
    assert formatting.format_decision_verb(DecisionKind.APPROVE) == "approved"
    assert formatting.format_decision_verb(DecisionKind.PROBE_LANDED) == "decided: Verify hook: it happened"


def test_times_are_formatted_in_utc() -> None:
    there = datetime(2026, 11, 21, 12, 0, 0, 123456, tzinfo=timezone(timedelta(hours=2)))
    assert formatting.format_exact_time(there) == "2026-11-21 10:00:00 UTC"
    assert formatting.format_iso_time(there) == "2026-11-21T10:00:00.123Z"


@pytest.mark.parametrize(
    ("tool", "args", "sentence"),
    [
        ("refund_card", {"order": 17, "amount": "40.00"}, "Refund card: order 17, amount 40.00"),
        ("git.delete", {"branches": ["a", "b"], "force": True}, 'Git delete: branches ["a", "b"], force true'),
        ("ping", {}, "Ping, without arguments"),
        ("", {"a": None}, "Unnamed tool: a null"),
        ("many", dict.fromkeys("abcdefgh", 1), "Many: a 1, b 1, c 1, d 1, e 1, f 1, and 2 more"),
        ("long", {"text": "word " * 40}, f"Long: text {('word ' * 12)[:59]}…"),
        ("broken", "not json", "Broken: not json"),
        ("hidden", {"to": "a\u202eb\x00"}, "Hidden: to a‹U+202E›b␀"),
    ],
)
def test_call_sentence(tool: str, args: object, sentence: str) -> None:
    assert formatting.build_default_call_sentence(tool, args) == sentence


def test_json_is_formatted_completely() -> None:
    assert formatting.indent_json('{"a":[1,"\\ud800"]}') == '{\n  "a": [\n    1,\n    "\\ud800"\n  ]\n}'


def test_stored_json_string_is_shown_as_text() -> None:
    assert formatting.format_json_for_reading('"two\\nlines"') == "two\nlines"
    assert formatting.format_json_for_reading('{"n":1}') == '{\n  "n": 1\n}'


def test_text_that_is_not_json_is_shown_unchanged() -> None:
    assert formatting.indent_json("{half") == "{half"
    assert formatting.parse_json_or_text("{half") == "{half"
