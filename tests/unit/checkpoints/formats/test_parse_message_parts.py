import pytest

from checkpoints.formats import parse_message_parts, to_canonical_json
from checkpoints.formats.parse_message_parts import (
    AudioPart,
    CallPart,
    ImagePart,
    OtherPart,
    Part,
    ReasoningPart,
    ResultPart,
    TextPart,
)


@pytest.mark.parametrize(
    ("message", "parts"),
    [
        pytest.param(
            {
                "id": "m1",
                "role": "assistant",
                "created_at": "2026-11-21T10:42:07+00:00",
                "blocks": [
                    {"kind": "reasoning", "text": "Think first."},
                    {"kind": "text", "text": "Let me look."},
                    {"kind": "tool_call", "id": "call_1", "name": "find_order", "args": {"order": 17}},
                ],
            },
            (ReasoningPart("Think first."), TextPart("Let me look."), CallPart("call_1", "find_order", {"order": 17})),
            id="own blocks",
        ),
        pytest.param(
            {
                "role": "tool",
                "blocks": [{"kind": "tool_result", "call_id": "call_1", "content": "gone", "is_error": True}],
            },
            (ResultPart("call_1", (TextPart("gone"),), is_error=True),),
            id="own result",
        ),
        pytest.param(
            {
                "role": "assistant",
                "content": [
                    {"type": "reasoning", "summary": [], "content": None, "encrypted_content": "gAAA"},
                    {"type": "redacted_thinking", "data": "EvAC"},
                    {"type": "thinking", "thinking": "", "signature": "Erc1"},
                    {"type": "thinking", "thinking": "Hm.", "signature": "Erc1"},
                    {"type": "reasoning", "encrypted_content": ["x"]},
                ],
            },
            (
                ReasoningPart("", "gAAA"),
                ReasoningPart("", "EvAC"),
                ReasoningPart("", "Erc1"),
                ReasoningPart("Hm."),
                OtherPart({"type": "reasoning", "encrypted_content": ["x"]}),
            ),
            id="encrypted reasoning",
        ),
        pytest.param({"role": "user", "content": "Hello"}, (TextPart("Hello"),), id="text content"),
        pytest.param(
            {"role": "assistant", "content": None, "refusal": "I cannot."}, (TextPart("I cannot."),), id="refusal"
        ),
        pytest.param(
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "I cannot."}, {"type": "refusal"}]},
            (TextPart("I cannot."), OtherPart({"type": "refusal"})),
            id="block of a refusal",
        ),
        pytest.param(
            {"role": "assistant", "content": None, "refusal": ["x"]}, (OtherPart({"refusal": ["x"]}),), id="no refusal"
        ),
        pytest.param(
            {"role": "assistant", "content": [{"type": "compaction", "content": "So far: 17."}]},
            (TextPart("So far: 17."),),
            id="summary of a compaction of Anthropic",
        ),
        pytest.param(
            {
                "role": "assistant",
                "content": [
                    {
                        "type": "image_generation_call",
                        "result": "AA",
                        "output_format": "webp",
                        "revised_prompt": "a cat",
                    },
                    {"type": "image_generation_call", "result": "BB"},
                    {"type": "image_generation_call", "result": None},
                ],
            },
            (
                ImagePart("data:image/webp;base64,AA", "a cat", number=1),
                ImagePart("data:image/png;base64,BB", number=2),
                OtherPart({"type": "image_generation_call", "result": None}),
            ),
            id="images that a model has made",
        ),
        pytest.param(
            {
                "role": "tool",
                "blocks": [
                    {
                        "kind": "tool_result",
                        "call_id": "c1",
                        "content": {"type": "computer_screenshot", "image_url": "https://a.example/b.png"},
                    }
                ],
            },
            (ResultPart("c1", (ImagePart("https://a.example/b.png", number=1),)),),
            id="screenshot",
        ),
        pytest.param(
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c1", "type": "custom", "custom": {"name": "f", "input": "x y"}}],
            },
            (CallPart("c1", "f", "x y"),),
            id="custom call of a chat completion",
        ),
        pytest.param(
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is this?"},
                    {"type": "image_url", "image_url": {"url": "https://a.example/b.png"}},
                ],
            },
            (TextPart("What is this?"), ImagePart("https://a.example/b.png", number=1)),
            id="OpenAI parts",
        ),
        pytest.param(
            {
                "role": "assistant",
                "content": None,
                "refusal": None,
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}},
                    {"id": "c2", "type": "function", "function": {"name": "g", "arguments": "not json"}},
                ],
            },
            (CallPart("c1", "f", {"a": 1}), CallPart("c2", "g", "not json")),
            id="OpenAI calls",
        ),
        pytest.param(
            {
                "role": "assistant",
                "content": "Yes.",
                "tool_calls": [
                    {"id": "c1", "name": "f", "args": {"a": 1}},
                    {"id": "c2", "name": "g", "arguments": "{}", "type": "tool_call"},
                ],
            },
            (TextPart("Yes."), CallPart("c1", "f", {"a": 1}), CallPart("c2", "g", {})),
            id="plain calls",
        ),
        pytest.param(
            {"role": "tool", "tool_call_id": "c1", "content": "42"},
            (ResultPart("c1", (TextPart("42"),)),),
            id="OpenAI result",
        ),
        pytest.param(
            {"type": "function_call_output", "call_id": "c1", "output": "42"},
            (ResultPart("c1", (TextPart("42"),)),),
            id="OpenAI response item",
        ),
        pytest.param(
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Hm.", "signature": "s"},
                    {"type": "tool_use", "id": "t1", "name": "calc", "input": {"x": 1}},
                ],
            },
            (ReasoningPart("Hm."), CallPart("t1", "calc", {"x": 1})),
            id="Anthropic blocks",
        ),
        pytest.param(
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "t1",
                        "content": [
                            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
                        ],
                    }
                ],
            },
            (ResultPart("t1", (ImagePart("data:image/png;base64,AA==", number=1),)),),
            id="Anthropic result with an image",
        ),
    ],
)
def test_every_message_convention_is_parsed(message: dict[str, object], parts: tuple[Part, ...]) -> None:
    assert parse_message_parts.parse_message_parts(to_canonical_json(message)) == parts


@pytest.mark.parametrize(
    ("message", "parts"),
    [
        ({"blocks": [{"kind": "strange", "x": 1}]}, (OtherPart({"kind": "strange", "x": 1}),)),
        ({"blocks": [{"kind": ["a"], "text": 1}]}, (OtherPart({"kind": ["a"], "text": 1}),)),
        ({"blocks": [{"kind": "text"}]}, (OtherPart({"kind": "text"}),)),
        ({"blocks": [7, "loose"]}, (OtherPart(7), TextPart("loose"))),
        ({"content": 7}, (OtherPart(7),)),
        ({"content": {"a": 1}}, (OtherPart({"a": 1}),)),
        ({"content": "Hi", "audio": {"id": "a1"}}, (TextPart("Hi"), OtherPart({"audio": {"id": "a1"}}))),
        ({"content": None, "tool_calls": [7]}, (OtherPart(7),)),
        ({"tool_calls": {"id": "c"}}, (OtherPart({"id": "c"}),)),
        ({"tool_calls": [{"name": "f", "args": 1, "x": 2}]}, (OtherPart({"name": "f", "args": 1, "x": 2}),)),
        ([1, 2], (OtherPart([1, 2]),)),
    ],
)
def test_unknown_blocks_are_shown_unchanged(message: object, parts: tuple[Part, ...]) -> None:
    assert parse_message_parts.parse_message_parts(to_canonical_json(message)) == parts


def test_damaged_body_is_shown_completely() -> None:
    assert parse_message_parts.parse_message_parts('{"role": "user"') == (TextPart('{"role": "user"'),)


def test_empty_message_has_no_parts() -> None:
    assert parse_message_parts.parse_message_parts('{"role":"assistant","content":""}') == ()


def test_lone_surrogate_is_kept() -> None:
    assert parse_message_parts.parse_message_parts('{"content":"\\ud83d"}') == (TextPart("\ud83d"),)


def test_images_and_recordings_are_numbered_through_results() -> None:
    image, sound = {"kind": "image", "url": "https://a.example/1.png"}, {"kind": "audio", "url": "https://a.example/1"}
    result = {"kind": "tool_result", "call_id": "c", "content": [image, sound, image]}
    parts = parse_message_parts.parse_message_parts(to_canonical_json({"blocks": [image, sound, result, image]}))
    assert [image.number for image in parse_message_parts.iterate_media(parts, ImagePart)] == [1, 2, 3, 4]
    assert [sound.number for sound in parse_message_parts.iterate_media(parts, AudioPart)] == [1, 2]


@pytest.mark.parametrize(
    ("block", "url"),
    [
        (
            {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
            "data:audio/wav;base64,UklGRg==",
        ),
        (
            {"type": "audio", "source": {"type": "base64", "media_type": "audio/mp4", "data": "AA=="}},
            "data:audio/mp4;base64,AA==",
        ),
        ({"type": "audio", "mimeType": "audio/ogg", "data": "AA=="}, "data:audio/ogg;base64,AA=="),
        ({"type": "audio_url", "audio_url": {"url": "https://a.example/1.mp3"}}, "https://a.example/1.mp3"),
        ({"inlineData": {"mimeType": "audio/flac", "data": "AA=="}}, "data:audio/flac;base64,AA=="),
        ({"inline_data": {"mime_type": "audio/aac", "data": "AA=="}}, "data:audio/aac;base64,AA=="),
        ({"type": "output_audio", "data": "SUQzBA=="}, "data:audio/mpeg;base64,SUQzBA=="),
        ({"type": "output_audio", "data": "AA=="}, "data:;base64,AA=="),
        ({"type": "audio", "data": 7}, None),
        ({"inlineData": {"mimeType": "video/mp4", "data": "AA=="}}, None),
        ({"inlineData": 7}, None),
    ],
)
def test_recordings_of_each_format(block: dict[str, object], url: str | None) -> None:
    expected = OtherPart(block) if url is None else AudioPart(url, number=1)
    assert parse_message_parts.parse_message_parts(to_canonical_json({"content": [block]})) == (expected,)


def test_spoken_answer_is_a_recording_with_its_transcript() -> None:
    message = {"role": "assistant", "content": None, "audio": {"id": "a1", "data": "UklGRg==", "transcript": "Yes."}}
    spoken = AudioPart("data:audio/wav;base64,UklGRg==", "Yes.", number=1)
    assert parse_message_parts.parse_message_parts(to_canonical_json(message)) == (spoken,)


def test_plain_text_contains_every_text_part() -> None:
    parts = (
        ReasoningPart("Hm."),
        TextPart("Yes."),
        CallPart("c", "pay", {"b": 1, "a": 2}),
        ResultPart("c", (TextPart("done"), ImagePart("data:x", "a chart"))),
        OtherPart([1]),
    )
    assert parse_message_parts.parts_to_text(parts) == 'Hm.\n\nYes.\n\npay {"a":2,"b":1}\n\ndone\n\na chart\n\n[1]'
