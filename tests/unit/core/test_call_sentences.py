"""Sentences about calls."""

import pytest

from harness_site.core import call_sentences


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
    assert call_sentences.build_default_call_sentence(tool, args) == sentence


@pytest.mark.parametrize(
    ("sentence", "shown"),
    [
        ("Pay 1250000.00 EUR", "Pay 1,250,000.00 EUR"),
        ("Pay EUR 12500.50.", "Pay EUR 12,500.50."),
        ("Pay -12500.50", "Pay -12500.50"),
        ("Pay 40.00 EUR for order 1234567", "Pay 40.00 EUR for order 1234567"),
        ("Open 192168.10.1 and v12345.67a", "Open 192168.10.1 and v12345.67a"),
    ],
)
def test_digits_of_long_amounts_are_grouped(sentence: str, shown: str) -> None:
    assert call_sentences.group_digits_of_amounts(sentence) == shown
