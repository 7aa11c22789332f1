"""Messages of Bedrock's Converse API are parsed into parts and calls without loss."""

from typing import Any

import pytest

from checkpoints.formats.parse_message_parts import (
    CallPart,
    ImagePart,
    OtherPart,
    ReasoningPart,
    ResultPart,
    TextPart,
    list_message_parts,
)
from checkpoints.formats.tool_calls_in_messages import (
    RequestedCall,
    list_call_ids_of_results,
    list_requested_calls,
)

IMAGE = {"image": {"format": "png", "source": {"bytes": {"__bytes_encoded__": True, "data": "iVBORw=="}}}}


def test_answers_have_texts_thoughts_and_calls() -> None:
    message = {
        "role": "assistant",
        "content": [
            {"reasoningContent": {"reasoningText": {"text": "Look first.", "signature": "x"}}},
            {"text": "I look it up."},
            {"toolUse": {"toolUseId": "t1", "name": "look_up", "input": {"order": 17}}},
        ],
    }
    assert list_message_parts(message) == (
        ReasoningPart("Look first."),
        TextPart("I look it up."),
        CallPart("t1", "look_up", {"order": 17}),
    )
    assert list_requested_calls(message) == [RequestedCall("t1", "look_up", {"order": 17})]


def test_results_have_texts_values_and_images() -> None:
    content = [{"text": "paid"}, {"json": {"amount": 40}}, IMAGE]
    result = {"toolUseId": "t1", "status": "error", "content": content}
    message = {"role": "user", "content": [{"toolResult": result}], "source": {"anything": 1}}
    image = ImagePart("data:image/png;base64,iVBORw==", number=1)
    assert list_message_parts(message) == (
        ResultPart("t1", (TextPart("paid"), OtherPart({"json": {"amount": 40}}), image), is_error=True),
    )
    assert list_call_ids_of_results(message) == ["t1"]


@pytest.mark.parametrize(
    "block",
    [
        {"cachePoint": {"type": "default"}},
        {"text": 7},
        {"toolUse": "t1"},
        {"toolUse": {"name": "look_up"}},
        {"toolResult": {"content": []}},
        {"reasoningContent": {"redactedContent": "x"}},
        {"image": {"format": "png", "source": {"location": {"uri": "s3://bucket/cat.png"}}}},
    ],
)
def test_blocks_of_another_form_are_shown_as_they_are(block: Any) -> None:
    message = {"role": "user", "content": [{"text": "See:"}, block]}
    assert list_message_parts(message) == (TextPart("See:"), OtherPart(block))
    assert (list_requested_calls(message), list_call_ids_of_results(message)) == ([], [])


def test_typed_blocks_are_read_as_before() -> None:
    message = {"role": "user", "content": [{"type": "text", "text": "typed"}, {"text": "untyped"}, "plain"]}
    assert list_message_parts(message) == (TextPart("typed"), TextPart("untyped"), TextPart("plain"))
