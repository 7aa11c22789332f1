"""Sentences about calls."""

import pytest

from harness_site.core import call_sentences


@pytest.mark.parametrize(
    ("tool", "args", "sentence"),
    [
        ("refund_card", {"order": 17, "amount": "40.00"}, "Refund card: order 17, amount 40.00"),
        ("git.delete", {"branches": ["a", "b"], "force": True}, "Git delete: branches a, b, force yes"),
        ("tag", {"tag": "vip", "customers": ["a"] * 100}, "Tag: tag vip, 100 customers"),
        ("run", {"env_vars": {"A": 1, "B": 2}, "steps": []}, "Run: env vars: 2 fields, steps: none"),
        ("run", {"rows": [{}]}, "Run: rows: 1 entry"),
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
