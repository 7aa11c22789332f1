import importlib
import json
import math
from collections import OrderedDict
from datetime import UTC, datetime
from decimal import Decimal
from enum import IntEnum, StrEnum
from typing import Any

import pytest

from checkpoints.exceptions import InvalidInput, NotRepresentable, TooLarge
from checkpoints.formats.canonical_json import (
    MAX_DEPTH,
    decode_json_string_or_return_text,
    parse_json,
    parse_json_or_return_text,
    to_canonical_json,
)
from tests.support import redos_texts

module = importlib.import_module("checkpoints.formats.canonical_json")  # the package exports a function of that name


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_text_has_sorted_keys_and_no_spaces() -> None:
    assert to_canonical_json({"b": [1, 2], "a": {"d": None, "c": True}}) == '{"a":{"c":true,"d":null},"b":[1,2]}'


def test_text_keeps_non_ascii_characters() -> None:
    assert to_canonical_json("Grüße, 世界 🌍") == '"Grüße, 世界 🌍"'


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        False,
        0,
        -1,
        2**63,
        10**1000,
        0.1,
        -0.0,
        1e300,
        5e-324,
        "",
        "\0",
        "\x7f\u2028\u2029",
        "\ud800",
        "\udfff and \ud83d",
        "\udc00\ud800",
        'quote " and \\',
        [],
        {},
        [[], {}, None],
        {"": 0, "\0": 1, "\ud800": 2},
        {"kind": "hologram", "beams": [1, 2.5, None], "nested": {"deep": {"deeper": [{}]}}},
    ],
    ids=repr,
)
def test_value_is_restored_equal(value: Any) -> None:
    assert parse_json(to_canonical_json(value)) == value
    assert type(parse_json(to_canonical_json(value))) is type(value)


def test_integers_and_floats_of_equal_value_are_distinguished() -> None:
    assert [to_canonical_json(1), to_canonical_json(1.0), to_canonical_json(True)] == ["1", "1.0", "true"]


def test_negative_zero_keeps_its_sign() -> None:
    assert math.copysign(1, parse_json(to_canonical_json(-0.0))) == -1


def test_text_can_be_stored_in_every_database() -> None:
    text = to_canonical_json({"\0": "\ud800 and \udfff"})

    assert text == '{"\\u0000":"\\ud800 and \\udfff"}'
    assert text.encode() == text.encode("utf-8", "strict")


@pytest.mark.parametrize(
    ("value", "kept"),
    [((1, (2,)), [1, [2]]), (OrderedDict(b=1, a=2), {"a": 2, "b": 1}), (Colour.RED, "red"), (Level.HIGH, 3)],
)
def test_similar_types_are_converted_to_json_types(value: Any, kept: Any) -> None:
    assert parse_json(to_canonical_json(value)) == kept


@pytest.mark.parametrize(
    ("value", "path"),
    [
        pytest.param(float("nan"), "value", id="nan"),
        pytest.param(float("inf"), "value", id="inf"),
        pytest.param([1, float("-inf")], "value[1]", id="-inf in a list"),
        pytest.param({"a": {1, 2}}, "value.a", id="set"),
        pytest.param({"a": [b"bytes"]}, "value.a[0]", id="bytes"),
        pytest.param({"a": {"b": datetime(2026, 1, 1, tzinfo=UTC)}}, "value.a.b", id="datetime"),
        pytest.param(Decimal("1.5"), "value", id="decimal"),
        pytest.param(object(), "value", id="object"),
        pytest.param(1j, "value", id="complex"),
        pytest.param({1: "one"}, "value[1]", id="int key"),
        pytest.param({"a": {None: 1}}, "value.a[None]", id="None key"),
        pytest.param({"a": {True: 1}}, "value.a[True]", id="bool key"),
        pytest.param({("a",): 1}, "value[('a',)]", id="tuple key"),
        pytest.param(frozenset(), "value", id="frozenset"),
        pytest.param(iter([1]), "value", id="iterator"),
    ],
)
def test_value_without_a_json_form_is_refused_with_its_path(value: Any, path: str) -> None:
    with pytest.raises(NotRepresentable) as caught:
        to_canonical_json(value)
    assert caught.value.path == path


def test_integer_of_thousands_of_digits_is_refused() -> None:
    with pytest.raises(NotRepresentable):
        to_canonical_json({"a": 10**5000})


@pytest.mark.parametrize(
    "value", ["\ud83d\ude00", "a\udbff\udfffb", {"\ud83d\ude00": 1}], ids=["text", "inside", "key"]
)
def test_surrogate_pair_is_refused(value: Any) -> None:
    with pytest.raises(NotRepresentable):
        to_canonical_json(value)


def test_refusal_is_a_value_error_and_an_invalid_input() -> None:
    with pytest.raises(ValueError, match="nan is not a JSON number"):
        to_canonical_json(float("nan"))
    with pytest.raises(InvalidInput):
        to_canonical_json(float("nan"))


def test_refusal_names_the_type() -> None:
    with pytest.raises(NotRepresentable) as caught:
        to_canonical_json({"when": {1}}, "plan")
    assert caught.value.path == "plan.when"


def test_depth_up_to_the_limit_is_accepted() -> None:
    deepest = nested(MAX_DEPTH)

    assert parse_json(to_canonical_json(deepest)) == deepest


def test_depth_beyond_the_limit_is_refused() -> None:
    with pytest.raises(NotRepresentable):
        to_canonical_json(nested(MAX_DEPTH + 1))


def test_list_that_contains_itself_is_refused() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)

    with pytest.raises(NotRepresentable):
        to_canonical_json(cycle)


def test_dict_that_contains_itself_is_refused() -> None:
    cycle: dict[str, Any] = {}
    cycle["self"] = {"again": cycle}

    with pytest.raises(NotRepresentable):
        to_canonical_json(cycle)


def test_shared_object_is_not_a_cycle() -> None:
    shared = {"a": 1}

    assert to_canonical_json([shared, shared]) == '[{"a":1},{"a":1}]'


def test_text_over_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_VALUE_BYTES", 12)

    assert to_canonical_json("x" * 10) == f'"{"x" * 10}"'
    with pytest.raises(TooLarge):
        to_canonical_json("x" * 11)


def test_limit_counts_bytes_and_not_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_VALUE_BYTES", 12)

    with pytest.raises(TooLarge):
        to_canonical_json("世" * 5)


@pytest.mark.parametrize("text", ["", "{", "NaN", "[Infinity]", '{"a":-Infinity}', "undefined", '"open'])
def test_parse_of_damaged_text_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_json(text)


@pytest.mark.parametrize(
    ("stored", "text"),
    [('"a\\u0000b"', "a\0b"), ('""', ""), ('{"a":1}', '{"a":1}'), ("17", "17"), ("plain words", "plain words")],
)
def test_decoded_text_of_stored_json(stored: str, text: str) -> None:
    assert decode_json_string_or_return_text(stored) == text


def test_key_order_does_not_change_the_text() -> None:
    first = {"a": 1, "b": {"c": 2, "d": 3}}
    second = json.loads('{"b": {"d": 3, "c": 2}, "a": 1}')

    assert to_canonical_json(first) == to_canonical_json(second)


def nested_text(levels: int) -> str:
    return '{"a":' * (levels // 2) + "[" * (levels - levels // 2) + "]" * (levels - levels // 2) + "}" * (levels // 2)


def test_every_storable_value_can_be_read() -> None:
    text = nested_text(MAX_DEPTH)
    assert to_canonical_json(parse_json(text)) == text
    wide = f"[{','.join([nested_text(MAX_DEPTH - 1)] * 50)}]"
    assert to_canonical_json(parse_json(wide)) == wide


@pytest.mark.parametrize("name", redos_texts.UNREPRESENTABLE)
def test_unstorable_value_is_an_error_and_shown_as_text(name: str) -> None:
    text = redos_texts.UNREPRESENTABLE[name]
    with pytest.raises(ValueError, match=r"levels deep|too large|not JSON|too many digits|Expecting"):
        parse_json(text)
    assert parse_json_or_return_text(text) == text
    assert parse_json_or_return_text('{"a": 1.5e3}') == {"a": 1500.0}
