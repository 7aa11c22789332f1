"""Values of arguments in sentences without a template."""

import pytest

from harness_site.review.call_sentence_with_bold_values import split_sentence_at_argument_values


def bold_parts(sentence: str, args: object) -> list[str]:
    pieces = list(split_sentence_at_argument_values(sentence, args))
    assert "".join(text for text, _ in pieces) == sentence
    return [text for text, is_bold in pieces if is_bold]


def test_texts_and_numbers_of_the_arguments_are_bold() -> None:
    args = {"order": 17, "amount": "40.00", "currency": "EUR", "urgent": True, "items": ["lamp"]}
    assert bold_parts("Refund 40.00 EUR for order 17", args) == ["40.00", "EUR", "17"]
    assert bold_parts("Refund 40.00 EUR", {"amount": 40.0}) == ["40.00"]


@pytest.mark.parametrize("sentence", ["Refund 40.00 EUR", "Order 1740", "Order 17.40", "Order A17", "Order 2.17"])
def test_part_of_a_word_or_number_is_not_bold(sentence: str) -> None:
    assert bold_parts(sentence, {"order": 17, "share": 40}) == []


def test_longest_value_is_bold() -> None:
    assert bold_parts("Write to ann lee", {"first": "ann", "whole": "ann lee"}) == ["ann lee"]


@pytest.mark.parametrize("args", [None, [], "17", {}, {"order": ""}, {"order": "x" * 300}])
def test_sentence_without_such_a_value_is_one_piece(args: object) -> None:
    assert list(split_sentence_at_argument_values("Refund order 17", args)) == [("Refund order 17", False)]
