"""Title of a session from its first prompts: one sentence of what a person asked for."""

from __future__ import annotations

import re
from typing import Final

_MAX_TEXT_LENGTH: Final = 4000
_MAX_TITLE_LENGTH: Final = 120
#: A shorter sentence is joined with the one after it: a greeting, or a heading of one word.
_MIN_SENTENCE_LENGTH: Final = 15
#: Elements at the beginning of a prompt, in which programs write the environment and instructions.
_LEADING_ELEMENT: Final = re.compile(r"\s*<([a-zA-Z][\w-]*)(?: [^<>\n]{0,200})?>(.*?)</\1>", re.DOTALL)
_LEADING_UNCLOSED_ELEMENT: Final = re.compile(r"\s*<[a-z]+(?:[_-][a-z]+)+(?: [^<>\n]{0,200})?>")
_CONTEXT_ELEMENT_NAME: Final = re.compile(
    r".*[_-].*|context|documents?|environment|examples?|files?|heartbeat|instructions|memory|permissions|rules|skill|system",
    re.IGNORECASE,
)
#: Elements in which programs wrap the prompt of a person.
_PROMPT_ELEMENTS: Final = frozenset(
    {"input", "issue", "message", "prompt", "query", "question", "request", "task", "user_message"}
    | {"user_prompt", "user_query", "user_question", "user_request"}
)
#: Name of who speaks, in conversations that were written into one text.
_PERSON_MARK: Final = re.compile(
    r"^[ \t]*(?:Human|User|Question|Query|User (?:query|question|request)):[ \t]*", re.MULTILINE
)
_OTHER_MARK: Final = re.compile(r"^[ \t]*(?:System|Assistant|AI|Thought|Answer|Context|History):", re.MULTILINE)
#: Beginnings of texts that tell a model who it is.
_INSTRUCTIONS: Final = re.compile(r"(?:You are|You're|Act as|Your (?:task|role|job|goal) is|System:)\s", re.IGNORECASE)

_CODE_BLOCK: Final = re.compile(r"(```|~~~).*?(?:\1|\Z)", re.DOTALL)
_LINK: Final = re.compile(r"!?\[([^\[\]\n]{1,300})\]\([^()\n]{1,1000}\)")
_LINE_MARK: Final = re.compile(r"^[ \t]*(?:#{1,6}|>|[-*+])[ \t]+", re.MULTILINE)
_EMPHASIS: Final = re.compile(r"(?<![\w*])(\*\*|__|`)(?=\S)([^*`\n]+?)(?<=\S)\1(?![\w*])")
_TAG: Final = re.compile(r"</?[a-zA-Z][\w-]*(?: [^<>\n]{0,200})?/?>")
_SENTENCE_END: Final = re.compile(r"[.!?](?=[)\"'”’]*\s+[^a-z\s])|[。！？]|\n[ \t]*\n")
#: Names that programs give to all of their traces and spans: operations, requests, classes, functions, and ids.
_GENERATED_NAME: Final = re.compile(
    r"(?i:agent|ai|chain|chat|completion|generation|invocation|llm|openai-generation|response|retrieval|root|run|session"
    r"|span|trace|turn|workflow|agent (?:run|turn|workflow))"
    r"|(?:create_agent|embeddings|execute_tool|generate_content|invoke_agent|invoke_workflow|text_completion)(?: .*)?"
    r"|(?:agent run|chat|invocation) \S+|(?:GET|POST|PUT|PATCH|DELETE|HEAD) .*"
    r"|[A-Z]\w*[a-z0-9][A-Z]\w*|\w+(?:\.\w+)+|.*[0-9a-fA-F]{8}(?:-?[0-9a-fA-F]{4}){2}.*|[\W\d_]*",
    re.DOTALL,
)


def is_custom_span_name(name: str) -> bool:
    """Return whether somebody chose a name for a trace or its span, instead of the program that wrote it."""
    return _GENERATED_NAME.fullmatch(name.strip()) is None


def build_title_and_detect_instructions(text: str) -> tuple[str, bool]:
    """Build the title of a session from a prompt: its first sentence without markup, cut at a word.

    Args:
        text: The text of a message in the name of a person.

    Returns:
        The title, empty if the text is only what a program wrote about the environment, and whether it consists of
        instructions to the model, so that the prompt after it has a better one.
    """
    written = _remove_program_elements(text[:_MAX_TEXT_LENGTH]).strip()
    if any(pattern.match(written) for pattern in (_PERSON_MARK, _OTHER_MARK, _INSTRUCTIONS)):
        written = _extract_first_message_of_person(written) or written
    return _shorten_to_first_sentence(written), bool(_INSTRUCTIONS.match(written))


def _extract_first_message_of_person(conversation: str) -> str:
    """Return what follows the first name of a person in a conversation of one text; empty if there is none."""
    mark = _PERSON_MARK.search(conversation)
    if mark is None:
        return ""
    other = _OTHER_MARK.search(conversation, mark.end())
    return conversation[mark.end() : other.start() if other else None].strip()


def _remove_program_elements(text: str) -> str:
    """Remove elements at the beginning of a text. One that wraps the prompt of a person is replaced by its content."""
    while match := _LEADING_ELEMENT.match(text):
        if match[1].lower() in _PROMPT_ELEMENTS:
            return match[2]
        if not _CONTEXT_ELEMENT_NAME.fullmatch(match[1]):
            return text
        text = text[match.end() :]
    return "" if _LEADING_UNCLOSED_ELEMENT.match(text) else text


def _shorten_to_first_sentence(text: str) -> str:
    text = _CODE_BLOCK.sub("\n", text).strip() or text
    text = _TAG.sub(" ", _LINK.sub(r"\1", text))
    text = _EMPHASIS.sub(r"\2", _LINE_MARK.sub("", text)).strip()
    ends = (match.end() for match in _SENTENCE_END.finditer(text))
    end = next((end for end in ends if len(text[:end].strip()) >= _MIN_SENTENCE_LENGTH), len(text))
    line = " ".join(text[:end].split()).rstrip(" :")
    if len(line) <= _MAX_TITLE_LENGTH:
        return line
    start, _, _ = line[:_MAX_TITLE_LENGTH].rpartition(" ")
    return f"{start.rstrip(' ,;:-') or line[: _MAX_TITLE_LENGTH - 1]}…"
