"""Sentences about calls."""

import pytest

from harness_site.core import call_sentences


@pytest.mark.parametrize(
    ("tool", "args", "sentence"),
    [
        ("refund_card", {"order": 17, "amount": "40.00"}, "Refund card: order 17, amount 40.00"),
        ("git.delete", {"branches": ["a", "b"], "force": True}, "Git delete: branches (a, b), force yes"),
        ("tag", {"tag": "vip", "customers": ["a"] * 100}, "Tag: tag vip, customers (100 entries)"),
        ("run", {"env_vars": {"A": 1, "B": 2}, "steps": []}, "Run: env vars (2 fields), steps (none)"),
        ("run", {"rows": [{}]}, "Run: rows (1 entry)"),
        ("ping", {}, "Ping, without arguments"),
        ("", {"a": None}, "Unnamed tool: a –"),
        ("many", dict.fromkeys("abcdefgh", 1), "Many: a 1, b 1, c 1, d 1, e 1, f 1, and 2 more"),
        ("long", {"text": "word " * 40}, f"Long: text {('word ' * 12)[:59]}…"),
        ("broken", "not json", "Broken: not json"),
        ("hidden", {"to": "a\u202eb\x00"}, "Hidden: to a‹U+202E›b␀"),
    ],
)
def test_call_sentence(tool: str, args: object, sentence: str) -> None:
    assert call_sentences.build_default_call_sentence(tool, args) == sentence


def test_each_value_of_an_argument_is_a_piece() -> None:
    args = {"order": 17, "urgent": True, "plan": {"a": 1, "b": 2}, "tags": ["new"], "note": None}
    pieces = call_sentences.split_default_call_sentence("refund", args)
    assert "".join(text for text, _ in pieces) == "Refund: order 17, urgent yes, plan (2 fields), tags (new), note –"
    assert [text for text, is_value in pieces if is_value] == ["17", "yes", "(2 fields)", "(new)", "–"]
