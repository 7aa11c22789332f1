"""Differences of two JSON values."""

from typing import Any

import pytest

from harness_site.core.masked_json_value_differences import list_value_differences

NUMBERS = list(range(150))
TEXT = " ".join(f"word{number}" for number in range(500))


def told(before: Any, after: Any) -> list[tuple[str, str, str]]:
    """Return path, kind and pieces of each difference, pieces with a mark before removed and added ones."""
    marks = {"same": "", "del": "-", "ins": "+"}
    return [
        (found.path, found.kind, "|".join(f"{marks[piece.change]}{piece.text}" for piece in found.pieces))
        for found in list_value_differences({"it": before}, {"it": after})
    ]


@pytest.mark.parametrize(
    ("before", "after", "differences"),
    [
        (NUMBERS, NUMBERS[:3] + NUMBERS[4:], [("it, item 4", "removed", "-3")]),
        (NUMBERS, [-1, *NUMBERS], [("it, item 1", "added", "+-1")]),
        (NUMBERS, [*NUMBERS[:-1], 7, 8], [("it, item 150", "changed", "-149|+7"), ("it, item 151", "added", "+8")]),
        ([1, 2], [2, 1], [("it, item 1", "changed", "-1|+2"), ("it, item 2", "changed", "-2|+1")]),
        (["a", "b", "c", "d"], ["a", "c", "d", "e"], [("it, item 2", "removed", "-b"), ("it, item 4", "added", "+e")]),
        (["a", "b", "c"], ["a", "x", "c"], [("it, item 2", "changed", "-b|+x")]),
        ([{"n": 1}, {"n": 2}], [{"n": 3}], [("it, row 1: n", "changed", "-1|+3"), ("it, row 2", "removed", "-n 2")]),
        (
            [{"n": 1, "s": "a"}, {"n": 2, "s": "b"}, {"n": 3, "s": "c"}],
            [{"n": 2, "s": "b"}, {"n": 4, "s": "c"}, {"n": 9, "s": "x"}],
            [
                ("it, row 1", "removed", "-n 1, s a"),
                ("it, row 2: n", "changed", "-3|+4"),
                ("it, row 3", "added", "+n 9, s x"),
            ],
        ),
        ([], [1], [("it, item 1", "added", "+1")]),
        ({"amount": "5187.79"}, {"amount": "5187.8"}, [("it.amount", "changed", "-5,187.79|+5,187.80")]),
        ({"amount": "20.0"}, {"amount": "20.00"}, [("it.amount", "changed", "-20.0|+20.00")]),
        ({"amount": 17}, {"amount": "17"}, [("it.amount", "changed", '-17|+"17"')]),
        ({"amount": "1249.00"}, {"amount": "abc"}, [("it.amount", "changed", "-1,249.00|+abc")]),
        ({"days": "30"}, {"days": "thirty"}, [("it.days", "changed", "-30|+thirty")]),
        ({"note": "late"}, {"note": ""}, [("it.note", "changed", "-late|+")]),
        ({"note": "EUR"}, {"note": "EUR "}, [("it.note", "changed", '-"EUR"|+"EUR "')]),
        (
            {"b": 1, "a": 1, "c": 1},
            {"b": 2, "d": 2, "a": 2},
            [
                ("it.b", "changed", "-1|+2"),
                ("it.d", "added", "+2"),
                ("it.a", "changed", "-1|+2"),
                ("it.c", "removed", "-1"),
            ],
        ),
    ],
)
def test_only_the_changed_items_of_a_list_are_listed(
    before: Any, after: Any, differences: list[tuple[str, str, str]]
) -> None:
    assert told(before, after) == differences


@pytest.mark.parametrize(
    ("item", "text"),
    [
        ({"sku": "CHR-09", "quantity": 4}, "sku CHR-09, quantity 4"),
        ({"price": "1249.00", "vat": "0.19", "code": "17"}, 'price 1,249.00, vat 0.19, code "17"'),
        ({"name": "Chair, oak", "note": "", "gift": True}, 'name "Chair, oak", note "", gift true'),
        (
            {"a, b": 'say "no"', "tags": ["x"], "to": {"city": "Bonn"}},
            '"a, b" "say \\"no\\"", tags ["x"], to {"city": "Bonn"}',
        ),
        ({"api_key": "k-123456", "site": "s"}, "api_key ‹masked›, site s"),
        ({}, "{}"),
    ],
)
def test_removed_and_added_objects_have_names_and_values(item: dict[str, Any], text: str) -> None:
    assert told([], [item]) == [("it, row 1", "added", f"+{text}")]
    assert told([item], []) == [("it, row 1", "removed", f"-{text}")]


def test_only_the_lines_of_a_change_are_shown_beside_it() -> None:
    lines = [f"This is line number {number} of the text." for number in range(30)]
    [(_path, _kind, pieces)] = told("\n".join(lines), "\n".join(lines).replace("number 7", "seven"))
    assert pieces == "…\nThis is line|- number 7|+ seven| of the text.\n…"


def test_unchanged_text_is_shortened_beside_a_change() -> None:
    [(path, kind, pieces)] = told(TEXT, TEXT.replace("word250", "other"))
    assert (path, kind) == ("it", "changed")
    start, removed, added, end = pieces.split("|")
    assert (removed, added) == ("- word250", "+ other")
    assert start == f"…{TEXT.partition(' word250')[0][-80:]}"
    assert end == f"{TEXT.partition('word250')[2][:80]}…"
