"""Titles that are found in prompts and in the names of spans."""

from __future__ import annotations

import pytest

from checkpoints.importers.prompt_title import build_title_and_detect_instructions, is_custom_span_name

ENVIRONMENT = "<environment_context>\n<cwd>/srv</cwd>\n</environment_context>"


@pytest.mark.parametrize(
    ("prompt", "title"),
    [
        ("Refund order 17.", "Refund order 17."),
        ("Hi! The lamp of order 17 is broken. Can you refund it?", "Hi! The lamp of order 17 is broken."),
        ("Read e.g. the first file. Then stop.", "Read e.g. the first file."),
        (f"{ENVIRONMENT}\n\nFix the lamp please. It is broken.", "Fix the lamp please."),
        (ENVIRONMENT, ""),
        ("<environment_context>\nthe rest is not there", ""),
        ("<task>Fix the `foo` of **bar**</task>", "Fix the foo of bar"),
        ("<b>Refund</b> order 17", "Refund order 17"),
        ("Human: Where is order 17?", "Where is order 17?"),
        ("System: You are a clerk.\nHuman: Where is order 17?\nAI: Here.", "Where is order 17?"),
        ("Where is it?\nQuestion: is order 17 late", "Where is it? Question: is order 17 late"),
        ("# Late orders\n\nList [all](https://example.com) of them.", "Late orders List all of them."),
        ("Explain this code\n```python\nprint(1)\n```", "Explain this code"),
        ("Edit these files:\n\n1. a.py\n2. b.py", "Edit these files"),
        ("```python\nprint(1)\n```", "```python print(1) ```"),
        ("word " * 50, f"{'word ' * 23}word…"),
        ("x" * 300, f"{'x' * 119}…"),
        ("", ""),
    ],
)
def test_title_of_a_prompt_is_its_first_sentence(prompt: str, title: str) -> None:
    assert build_title_and_detect_instructions(prompt) == (title, False)


def test_prompt_that_tells_the_model_who_it_is_says_so() -> None:
    prompt = "You are a helpful assistant that knows the weather. Be brief."
    assert build_title_and_detect_instructions(prompt) == ("You are a helpful assistant that knows the weather.", True)


@pytest.mark.parametrize("name", ["Refund", "joke-generator", "Answer the customer", "Chat with Ann"])
def test_name_that_somebody_chose_is_recognised(name: str) -> None:
    assert is_custom_span_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "LangGraph",
        "ChatOpenAI",
        "Agent workflow",
        "ai.generateText",
        "chat gpt-4o",
        "invocation [hello_app]",
        "invoke_agent refund desk",
        "run 171105b7-59dd-49c0-9677-0b95395aa46a",
        "POST /chat",
        "",
    ],
)
def test_name_that_a_program_gives_to_all_spans_is_recognised(name: str) -> None:
    assert not is_custom_span_name(name)
