"""Messages that a load gives are equal to the saved ones, and share nothing with them that a program may change."""

import copy
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from pydantic import PrivateAttr

from checkpoints.adapters.langgraph import message_list_cache
from checkpoints.adapters.langgraph.message_list_cache import EMPTY_LIST, CachedMessages


class _MessageWithPrivateAttribute(HumanMessage):
    _seen: list[str] = PrivateAttr(default_factory=list)


def _build_messages(number: int) -> list[BaseMessage]:
    private = _MessageWithPrivateAttribute(f"private {number}")
    private._seen.append("once")
    return [
        HumanMessage(f"question {number}", id=f"q{number}"),
        HumanMessage([{"type": "text", "text": f"question {number}"}], name="user", extra_field={"a": [number]}),
        AIMessage("", tool_calls=[{"name": "pay", "args": {"order": number}, "id": f"c{number}"}]),
        ToolMessage("paid", tool_call_id=f"c{number}", artifact={"receipt": [number]}),
        AIMessage("done", response_metadata={"model_name": "m"}, usage_metadata=None),
        private,
    ]


def _cache(messages: Sequence[BaseMessage]) -> CachedMessages:
    fields = message_list_cache.copy_message_fields(messages)
    cached = message_list_cache.build_messages_to_copy_for_loads(messages, fields)
    assert cached is not None
    return cached


def _list_parts(message: BaseMessage) -> list[Any]:
    return [
        type(message),
        message.__dict__,
        message.__pydantic_extra__,
        message.__pydantic_fields_set__,
        message.__pydantic_private__,
    ]


def _change_in_place(value: Any) -> None:
    if isinstance(value, dict):
        for item in value.values():
            _change_in_place(item)
        value["changed"] = True
    elif isinstance(value, list):
        for item in value:
            _change_in_place(item)
        value.append("changed")
    elif isinstance(value, set):
        value.add("changed")


@pytest.mark.parametrize("kept", [0, 1, 4, 6])
def test_copies_are_equal_and_independent(kept: int) -> None:
    first, second, third = _build_messages(1), _build_messages(2), _build_messages(3)
    cached = EMPTY_LIST.stored
    for start, added in ((0, first), (kept, second), (kept + 6, third)):
        cached = cached.build_extended_messages(start, _cache(added))
    expected = [_list_parts(copy.deepcopy(each)) for each in [*first[:kept], *second, *third]]

    copies = cached.build_messages()
    assert [_list_parts(each) for each in copies] == expected
    for each in copies:
        for part in _list_parts(each)[1:]:
            _change_in_place(part)

    assert [_list_parts(each) for each in cached.build_messages()] == expected


class _Locked:
    def __deepcopy__(self, memo: object) -> object:
        raise TypeError("it cannot be copied")


def test_message_whose_private_attribute_cannot_be_copied_is_read_again() -> None:
    message = _MessageWithPrivateAttribute("hi")
    message._seen.append(_Locked())  # type: ignore[arg-type]
    fields = message_list_cache.copy_message_fields([message])

    assert fields is not None
    assert message_list_cache.build_messages_to_copy_for_loads([message], fields) is None
