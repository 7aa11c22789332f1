from typing import Any

import pytest

from checkpoints.formats import to_canonical_json
from harness_site.sessions.compare import json_diff


def changes(old: Any, new: Any) -> list[tuple[tuple[str | int, ...], str]]:
    found = json_diff.compare_json_texts(to_canonical_json(old), to_canonical_json(new))
    return [(change.path, change.change.value) for change in found.changes]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({}, {}, []),
        ({"a": 1}, {"a": 1.5}, [(("a",), "changed")]),
        ({"a": 1}, {"a": True}, [(("a",), "changed")]),
        ({"a": None}, {}, [(("a",), "removed")]),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, [(("a", "b", 2), "changed")]),
        ([1, 2, 3], [0, 1, 2, 3], [((1,), "added")]),
        ([1, 2, 3], [1, 3], [((2,), "removed")]),
        ([1, 1], [1], [((2,), "removed")]),
        ([1], [True], [((1,), "changed")]),
        ([], [1], [((1,), "added")]),
        ({"a": []}, {"a": {}}, [(("a",), "changed")]),
    ],
)
def test_differences_are_named_by_path(old: Any, new: Any, expected: list[tuple[Any, str]]) -> None:
    assert changes(old, new) == expected


def test_deep_values_are_compared_as_one() -> None:
    old, new = 1, 2
    for _ in range(40):
        old, new = {"in": old}, {"in": new}  # type: ignore[assignment]
    [(path, change)] = changes(old, new)
    assert change == "changed"
    assert len(path) < 40
