"""Every JSON value is restored exactly, with equal types and texts."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from checkpoints.exceptions import NotRepresentable
from checkpoints.formats import digests
from checkpoints.formats.canonical_json import parse_json, to_canonical_json

PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
#: Every text that Python has, lone surrogates and NUL included.
texts = st.text(st.characters(exclude_categories=()), max_size=20).filter(lambda text: not PAIR.search(text))
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(texts, inner, max_size=5), max_leaves=25
)


def exactly(value: Any) -> Any:
    """Return a representation in which 1, 1.0, True and -0.0 differ."""
    if isinstance(value, dict):
        return {key: exactly(item) for key, item in value.items()}
    if isinstance(value, list):
        return [exactly(item) for item in value]
    return (type(value), repr(value))


@given(values)
def test_value_is_restored_exactly(value: Any) -> None:
    assert exactly(parse_json(to_canonical_json(value))) == exactly(value)


@given(values)
def test_text_is_its_own_canonical_form(value: Any) -> None:
    text = to_canonical_json(value)

    assert to_canonical_json(parse_json(text)) == text
    assert text.encode("utf-8", "strict").decode() == text
    assert "\0" not in text


@given(values, values)
def test_only_equal_values_have_the_same_text(first: Any, second: Any) -> None:
    assert (to_canonical_json(first) == to_canonical_json(second)) == (exactly(first) == exactly(second))


@given(st.lists(values, max_size=4), st.lists(values, max_size=4))
def test_only_equal_parts_have_the_same_key(first: list[Any], second: list[Any]) -> None:
    assert (digests.digest_key_parts(*first) == digests.digest_key_parts(*second)) == (
        exactly(first) == exactly(second)
    )


@given(values, st.sampled_from([math.nan, math.inf, -math.inf, b"", {1}, 1j, object(), "\ud83d\ude00"]))
def test_invalid_leaf_at_any_position_is_refused(value: Any, bad: Any) -> None:
    for spoiled in ([value, bad], {"a": value, "b": [bad]}, [[[bad]], value]):
        with pytest.raises(NotRepresentable):
            to_canonical_json(spoiled)


@given(st.lists(texts, max_size=8), st.integers(0, 8), texts)
def test_chain_finds_where_two_transcripts_differ(bodies: list[str], place: int, other: str) -> None:
    assume(place < len(bodies))
    assume(other != bodies[place])
    changed = [*bodies[:place], other, *bodies[place + 1 :]]
    same = [a == b for a, b in zip(safe_chain(bodies), safe_chain(changed), strict=True)]

    assert same == [index < place for index in range(len(bodies))]


def safe_chain(bodies: list[str]) -> list[bytes]:
    return digests.compute_hash_chains([to_canonical_json(body) for body in bodies])
