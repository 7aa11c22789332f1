import pytest

from checkpoints.queries import blocks
from checkpoints.queries.blocks import Call, Image, Other, Part, Reasoning, Result, Text
from checkpoints.serde import canonical


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
            (Reasoning("Think first."), Text("Let me look."), Call("call_1", "find_order", {"order": 17})),
            id="own blocks",
        ),
        pytest.param(
            {
                "role": "tool",
                "blocks": [{"kind": "tool_result", "call_id": "call_1", "content": "gone", "is_error": True}],
            },
            (Result("call_1", (Text("gone"),), is_error=True),),
            id="own result",
        ),
        pytest.param({"role": "user", "content": "Hello"}, (Text("Hello"),), id="text content"),
        pytest.param(
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is this?"},
                    {"type": "image_url", "image_url": {"url": "https://a.example/b.png"}},
                ],
            },
            (Text("What is this?"), Image("https://a.example/b.png", number=1)),
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
            (Call("c1", "f", {"a": 1}), Call("c2", "g", "not json")),
            id="OpenAI calls",
        ),
        pytest.param(
            {"role": "tool", "tool_call_id": "c1", "content": "42"}, (Result("c1", (Text("42"),)),), id="OpenAI result"
        ),
        pytest.param(
            {"type": "function_call_output", "call_id": "c1", "output": "42"},
            (Result("c1", (Text("42"),)),),
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
            (Reasoning("Hm."), Call("t1", "calc", {"x": 1})),
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
            (Result("t1", (Image("data:image/png;base64,AA==", number=1),)),),
            id="Anthropic result with an image",
        ),
    ],
)
def test_every_convention_is_understood(message: dict[str, object], parts: tuple[Part, ...]) -> None:
    assert blocks.read(canonical(message)) == parts


@pytest.mark.parametrize(
    ("message", "parts"),
    [
        ({"blocks": [{"kind": "strange", "x": 1}]}, (Other({"kind": "strange", "x": 1}),)),
        ({"blocks": [{"kind": ["a"], "text": 1}]}, (Other({"kind": ["a"], "text": 1}),)),
        ({"blocks": [{"kind": "text"}]}, (Other({"kind": "text"}),)),
        ({"blocks": [7, "loose"]}, (Other(7), Text("loose"))),
        ({"content": 7}, (Other(7),)),
        ({"content": {"a": 1}}, (Other({"a": 1}),)),
        ({"content": "Hi", "audio": {"id": "a1"}}, (Text("Hi"), Other({"audio": {"id": "a1"}}))),
        ({"content": None, "tool_calls": [7]}, (Other(7),)),
        ({"tool_calls": {"id": "c"}}, (Other({"id": "c"}),)),
        ([1, 2], (Other([1, 2]),)),
    ],
)
def test_what_is_not_understood_is_shown_as_it_is(message: object, parts: tuple[Part, ...]) -> None:
    assert blocks.read(canonical(message)) == parts


def test_a_damaged_body_is_shown_whole() -> None:
    assert blocks.read('{"role": "user"') == (Text('{"role": "user"'),)


def test_an_empty_message_has_no_parts() -> None:
    assert blocks.read('{"role":"assistant","content":""}') == ()


def test_a_lone_surrogate_survives() -> None:
    assert blocks.read('{"content":"\\ud83d"}') == (Text("\ud83d"),)


def test_images_are_numbered_through_results() -> None:
    image = {"kind": "image", "url": "https://a.example/1.png"}
    body = canonical({"blocks": [image, {"kind": "tool_result", "call_id": "c", "content": [image, image]}, image]})
    assert [image.number for image in blocks.images(blocks.read(body))] == [1, 2, 3, 4]


def test_plain_is_everything_that_is_said() -> None:
    parts = (
        Reasoning("Hm."),
        Text("Yes."),
        Call("c", "pay", {"b": 1, "a": 2}),
        Result("c", (Text("done"), Image("data:x", "a chart"))),
        Other([1]),
    )
    assert blocks.plain(parts) == 'Hm.\n\nYes.\n\npay {"a":2,"b":1}\n\ndone\n\na chart\n\n[1]'
