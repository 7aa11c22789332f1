"""Sentences that say what a call does, with its secrets masked."""

import logging
import re
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import Any, Final, Protocol

from django.utils.translation import gettext, ngettext

from checkpoints.enums import UNANSWERED_RESULT
from checkpoints.models.tool_calls_and_results import INTERRUPT_TOOL
from harness_site.core import masked_formatting
from harness_site.core.iso_times_in_call_arguments import format_time_argument, format_times_in_sentence
from harness_site.core.masking.find_known_secret_values import contains_short_secret_value
from harness_site.core.masking.masker import (
    collect_secret_values,
    get_masked_text_beginning,
    mask_secret_fields_only,
    use_masking_rules_with_extra_values,
)
from harness_site.core.money_amounts_in_call_arguments import format_amount_argument, format_amounts_in_sentence
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden, strip_markdown_marks
from harness_site.core.shell_commands_in_call_arguments import join_command_without_shell_wrapper_or_empty
from harness_site.core.shorten_shell_commands import (
    describe_patched_files,
    shorten_path_at_beginning,
    summarize_command,
)

logger = logging.getLogger(__name__)

#: Number of arguments that a sentence names.
_MAX_ARGUMENTS: Final = 6
#: Number of values of a list or an object that a sentence names in any case, and maximum number of which it names some.
_MIN_LISTED_VALUES: Final = 2
_MAX_LISTED_VALUES: Final = 20
#: Maximum characters of a value, and those of a path and of a text in Markdown that are read.
_MAX_VALUE_LENGTH: Final = 60
_SCANNED_PATH: Final = 1_000
_SCANNED_MARKDOWN: Final = 2_000
#: Names of tools for one file, without signs and capital letters, and of the arguments that name the file.
_FILE_TOOLS: Final = frozenset(
    {
        *("read", "readfile", "write", "writefile", "writetofile", "createfile", "edit", "editfile", "multiedit"),
        *(
            "notebookedit",
            "notebookread",
            "replace",
            "replaceinfile",
            "searchreplace",
            "deletefile",
            "view",
            "viewfile",
        ),
    }
)
_FILE_ARGUMENTS: Final = (
    "file_path",
    "filePath",
    "absolute_path",
    "notebook_path",
    "target_file",
    "path",
    "filename",
    "file",
)
#: Names of a first argument that say no more than the name of the tool does: “Bash: make lint”.
_COMMAND_ARGUMENTS: Final = frozenset({"command", "cmd"})
#: Arguments beside a command, in small letters without signs, that a list leaves out: they say how it is run.
_COMMAND_SETTINGS: Final = frozenset(
    {
        *("workdir", "cwd", "dirpath", "directory", "timeout", "timeoutms", "yieldtimems", "maxoutputtokens"),
        *("login", "shell", "tty", "runinbackground", "withescalatedpermissions", "sandboxpermissions"),
        *("description", "justification"),
    }
)
#: Sentences that explain why a call has no result. The last one is in rows of development versions.
_EXPLANATIONS: Final = frozenset(
    {
        UNANSWERED_RESULT,
        "The imported transcript ends before this call was answered. Whether it happened is not known, and nobody has "
        "to decide: no run of this store made it.",
    }
)
#: Beginning of the name of a tool of an MCP server, which is followed by the server and the name that the server uses.
_MCP_PREFIX: Final = re.compile(r"mcp__.+?__(?=[^_])")
_MARKDOWN_LINE: Final = re.compile(r"^(?:#{1,6} |[ \t]*\|.*\|[ \t]*$)", re.MULTILINE)
_SPACE_BETWEEN_WORDS: Final = str.maketrans("_-.", "   ")


def remove_mcp_prefix(tool: str) -> str:
    """Return the name that an MCP server uses for its tool; another name stays."""
    return _MCP_PREFIX.sub("", tool, count=1) if tool.startswith("mcp__") else tool


def mask_and_format_tool_name(tool: str) -> str:
    """Return the name of a tool, masked; what a framework asks people is called a question.

    The name of a tool of an MCP server is the one that the server uses, as in the transcript.
    """
    return gettext("Question") if tool == INTERRUPT_TOOL else remove_mcp_prefix(mask_and_reveal_hidden(tool))


def mask_and_format_mcp_server(tool: str) -> str:
    """Name the MCP server of a tool, masked; empty for another tool. It tells tools with equal names apart."""
    shown = mask_and_reveal_hidden(tool)
    prefix = _MCP_PREFIX.match(shown)
    return gettext("MCP server %(server)s") % {"server": prefix[0][len("mcp__") : -len("__")]} if prefix else ""


class DescribedCall(Protocol):
    """A call that a sentence can be made of: a stored row, or the record that a page shows."""

    @property
    def tool(self) -> str: ...

    @property
    def sentence(self) -> str: ...

    @property
    def args_json_in_caller_order(self) -> str: ...


def does_sentence_describe_call(sentence: str) -> bool:
    """Return whether the stored sentence of a call says what the call does."""
    return bool(sentence) and sentence not in _EXPLANATIONS


def build_masked_call_sentence(tool: str, sentence: str, args: Any) -> str:
    """Describe a call with secrets masked.

    The sentence of the tool is used without the values of secret fields, else one built from tool name and arguments.
    """
    return _build_masked_sentence(tool, sentence, args, build_default_call_sentence)


def _build_masked_sentence(tool: str, sentence: str, args: Any, build: Callable[[str, Any], str]) -> str:
    secrets = collect_secret_values(args)
    with use_masking_rules_with_extra_values(secrets):
        if does_sentence_describe_call(sentence) and not contains_short_secret_value(sentence, secrets):
            return format_times_in_sentence(format_amounts_in_sentence(mask_and_reveal_hidden(sentence), args), args)
        return build(tool, args)


def format_call_sentence(call: DescribedCall) -> str:
    """Describe what a call was about to do: in the tool's words, else made from its name and arguments."""
    try:
        return build_masked_call_sentence(
            call.tool, call.sentence, masked_formatting.parse_json_or_text(call.args_json_in_caller_order)
        )
    except (ValueError, RecursionError):
        logger.exception("The arguments of the call %s cannot be put in words.", getattr(call, "pk", ""))
        return build_default_call_sentence(call.tool, gettext("its arguments cannot be shown"))


def remove_sentence_from_question_args(args: Any, sentence: str) -> Any:
    """Return what the arguments of a framework's question have beside the text that its sentence shows.

    Args:
        args: Arguments of the question: a dict with the `value` that the framework's interrupt asked with.
        sentence: Sentence of the question, as it is stored.

    Returns:
        The parts of a value with several, and None if there is nothing else.
    """
    if not isinstance(args, dict) or args.keys() != {"value"}:
        return args
    value = args["value"]
    if isinstance(value, dict):
        return {name: part for name, part in value.items() if part != sentence} or None
    return None if value == sentence else args


def format_short_call_sentence(call: DescribedCall) -> str:
    """Describe a call in a list, as `format_call_sentence` does; long arguments stand on the page of the call."""
    try:
        args = masked_formatting.parse_json_or_text(call.args_json_in_caller_order)
        return _build_masked_sentence(call.tool, call.sentence, args, build_short_call_sentence)
    except (ValueError, RecursionError):
        return format_call_sentence(call)


def describe_call_beside_tool_name(call: DescribedCall) -> str:
    """Describe a call where the name of its tool stands already: in the tool's words, else by its short arguments."""
    sentence = format_short_call_sentence(call)
    return (
        sentence
        if does_sentence_describe_call(call.sentence)
        else sentence.removeprefix(put_tool_in_words(_MCP_PREFIX.sub("", call.tool))).lstrip(":, ")
    )


@dataclass(frozen=True, slots=True)
class CallSummary:
    """What a line of a list says of a call.

    `whole` is the complete command or path if `sentence` has a shortened one, else empty. `folder` is the one that the
    command changes to before it runs, which the sentence does not have, and `whole_folder` its complete path.
    """

    sentence: str
    whole: str = ""
    folder: str = ""
    whole_folder: str = ""


def summarize_call(call: DescribedCall, *, is_beside_tool_name: bool) -> CallSummary:
    """Summarize a call for a list; with `is_beside_tool_name`, the sentence does not repeat the name of the tool."""
    describe = describe_call_beside_tool_name if is_beside_tool_name else format_short_call_sentence
    sentence = describe(call)
    try:
        args = masked_formatting.parse_json_or_text(call.args_json_in_caller_order)
        if does_sentence_describe_call(call.sentence) or not _may_be_about_command_or_file(call.tool, args):
            return CallSummary(sentence)
        with use_masking_rules_with_extra_values(collect_secret_values(args)):
            return _build_summary_with_whole_command_or_path(call.tool, args, sentence)
    except (ValueError, RecursionError):
        return CallSummary(sentence)


def _may_be_about_command_or_file(tool: str, args: Any) -> bool:
    """Whether a call may have a command or a path of which its sentence has a shortened one: few calls do."""
    return isinstance(args, dict) and (
        next(iter(args), "") in _COMMAND_ARGUMENTS or _find_path_argument_of_file_tool(tool, args) is not None
    )


def _build_summary_with_whole_command_or_path(tool: str, args: dict[str, Any], sentence: str) -> CallSummary:
    path = _find_path_argument_of_file_tool(tool, args)
    if path is not None:
        whole = masked_formatting.mask_and_shorten_to_one_line(path, _SCANNED_PATH)
        return CallSummary(sentence, "" if sentence.endswith(whole) else whole)
    command = _find_command_in_first_argument_or_empty(mask_secret_fields_only(args))
    if not command:
        return CallSummary(sentence)
    summary = summarize_command(command)
    whole = "" if summary.text == summary.whole else summary.whole
    return CallSummary(sentence, whole, summary.folder, summary.whole_folder)


def _find_command_in_first_argument_or_empty(args: dict[str, Any]) -> str:
    """Return the command that is the first of the arguments; empty if that is something else."""
    name, value = next(iter(args.items()), ("", None))
    return join_command_without_shell_wrapper_or_empty(value) if name in _COMMAND_ARGUMENTS else ""


def build_short_call_sentence(tool: str, args: Any) -> str:
    """Describe a call without its long arguments: “Write report.md”, “Mail: to ann, and 1 more”.

    It has the name of the file of a tool for files. Of other tools it has the first argument, and those further ones
    that are one short line. Decisions are about all arguments, see `build_default_call_sentence`.
    """
    tool = _MCP_PREFIX.sub("", tool)
    if not isinstance(args, dict) or not args:
        return build_default_call_sentence(tool, args)
    path = _find_path_argument_of_file_tool(tool, args)
    if path is not None:
        whole = masked_formatting.mask_and_shorten_to_one_line(path, _SCANNED_PATH)
        return f"{put_tool_in_words(tool)} {shorten_path_at_beginning(whole, _MAX_VALUE_LENGTH)}"
    shown_args = mask_secret_fields_only(args)
    (first_name, first), *others = shown_args.items()
    if command := _find_command_in_first_argument_or_empty(shown_args):
        return _describe_command_in_list(tool, command, dict(others))
    if isinstance(first, str) and (files := describe_patched_files(first)):
        return f"{put_tool_in_words(tool)}: {files}"
    chosen = {
        first_name: _cut_to_first_line_if_markdown(first),
        **{name: value for name, value in others[: _MAX_ARGUMENTS - 1] if not _is_long_text(value)},
    }
    pieces = _generate_pieces_of_masked_args(tool, chosen, omitted=len(args) - len(chosen))
    return "".join([text for text, _ in pieces])


def _describe_command_in_list(tool: str, command: str, others: dict[str, Any]) -> str:
    first_line, _, rest = command.strip().partition("\n")
    is_named_after_command = first_line.partition(" ")[0] == tool
    said = summarize_command(first_line if is_named_after_command else command).text
    further = {
        name: value
        for name, value in others.items()
        if _keep_lowercased_letters_and_digits(name) not in _COMMAND_SETTINGS and not _is_long_text(value)
    }
    if is_named_after_command:  # its name says nothing beside the command, and further lines are a text
        beginning = f"{said} …" if rest.strip() and not said.endswith("…") else said
    else:
        beginning = f"{put_tool_in_words(tool)}: {said}"
    words = [beginning, *(_put_argument_in_words(*item) for item in further.items())]
    return ", ".join(words[:_MAX_ARGUMENTS])


def _keep_lowercased_letters_and_digits(name: str) -> str:
    return "".join(filter(str.isalnum, name)).lower()


def _find_path_argument_of_file_tool(tool: str, args: dict[str, Any]) -> str | None:
    if _keep_lowercased_letters_and_digits(tool) not in _FILE_TOOLS:
        return None
    path = next((args[name] for name in _FILE_ARGUMENTS if name in args), None)
    return path if isinstance(path, str) and path and not _is_long_text(path, _SCANNED_PATH) else None


def _cut_to_first_line_if_markdown(value: Any) -> Any:
    """Return the first line of a text with headings or tables, without marks; any other value as it is."""
    if not isinstance(value, str) or not _MARKDOWN_LINE.search(value):
        return value
    first, _, rest = strip_markdown_marks(get_masked_text_beginning(value, _SCANNED_MARKDOWN)).strip().partition("\n")
    return f"{first} …" if rest else first


def _is_long_text(value: Any, limit: int = _MAX_VALUE_LENGTH) -> bool:
    return isinstance(value, str) and (len(value) > limit or "\n" in value.strip())


def list_texts_of_default_sentences() -> list[str]:
    """List what sentences of calls may say in the current language that is not in the stored call."""
    names = {"tool": "", "count": "", "values": ""}
    return [
        "UTC",
        gettext("Question"),
        gettext("Unnamed tool"),
        gettext("%(tool)s, without arguments") % names,
        gettext(", and %(count)s more") % names,
        ngettext("%(values)s and %(count)s more", "%(values)s and %(count)s more", 2) % names,
        *(gettext(text) for text in ("none", "yes", "no")),
        *(ngettext("%(count)s field", "%(count)s fields", number) % names for number in (1, 2)),
        *(ngettext("%(count)s entry", "%(count)s entries", number) % names for number in (1, 2)),
    ]


def build_default_call_sentence(tool: str, args: Any) -> str:
    """Describe a call of a tool without a sentence of its own: “Refund card: order 17, amount 40.00”.

    Lists and objects have parentheses with their first values: “branches (main, old and 3 more)”. Large and nested ones
    are counted: “customers (100 entries)”, because the page of the call lists them. Long texts, of which it has the
    beginning, come last.
    """
    return "".join([text for text, _ in _generate_default_sentence_pieces(tool, _put_long_texts_last(args))])


def _put_long_texts_last(args: Any) -> Any:
    """Return arguments with the long texts at the end, where they cut off no other; a command stays the first."""
    if not isinstance(args, dict):
        return args
    first = next(iter(args), "")

    def is_moved_to_end(argument: tuple[str, Any]) -> bool:
        name, value = argument
        return _is_long_text(value) and not (name == first and name in _COMMAND_ARGUMENTS)

    return dict(sorted(args.items(), key=is_moved_to_end))


def list_masked_default_sentence_pieces(tool: str, args: Any) -> list[tuple[str, bool]]:
    """Split the sentence of a call whose tool has none into pieces, each with whether it is the value of an argument.

    Secrets are masked as in `build_masked_call_sentence`.
    """
    with use_masking_rules_with_extra_values(collect_secret_values(args)):
        return list(_generate_default_sentence_pieces(tool, _put_long_texts_last(args)))


def _generate_default_sentence_pieces(tool: str, args: Any) -> Iterator[tuple[str, bool]]:
    """Generate the pieces of a sentence, each with whether it is the value of an argument."""
    return _generate_pieces_of_masked_args(tool, mask_secret_fields_only(args))


def _generate_pieces_of_masked_args(tool: str, args: Any, *, omitted: int = 0) -> Iterator[tuple[str, bool]]:
    """Generate the pieces of a sentence about arguments whose secret fields are masked.

    `omitted` is the number of arguments that are not in `args`.
    """
    name = put_tool_in_words(tool)
    if tool == INTERRUPT_TOOL and isinstance(args, dict) and args.keys() == {"value"}:
        name, args = gettext("Question"), args["value"]
    if args == {}:
        yield gettext("%(tool)s, without arguments") % {"tool": name}, False
        return
    yield name, False
    if not isinstance(args, dict):
        if args not in (None, ""):
            yield ": ", False
            yield masked_formatting.mask_and_shorten_to_one_line(args), True
        return
    for number, (key, value) in enumerate(islice(args.items(), _MAX_ARGUMENTS)):
        is_first_command = number == 0 and key in _COMMAND_ARGUMENTS
        command = join_command_without_shell_wrapper_or_empty(value) if is_first_command else ""
        yield ", " if number else ": ", False
        if not command:
            yield f"{_put_name_in_words(key)} ", False
        yield _put_value_in_words(command or format_argument_in_sentence(key, value)), True
    omitted += max(len(args) - _MAX_ARGUMENTS, 0)
    if omitted > 0:
        yield gettext(", and %(count)s more") % {"count": omitted}, False


def describe_arguments_not_in_sentence(args: Any, names: Container[str], sentence: str) -> str:
    """Describe the arguments with these names, without those whose value `sentence` says: “replicas: 6 · dry: no”."""
    if not isinstance(args, dict):
        return ""
    chosen = {name: value for name, value in mask_secret_fields_only(args).items() if name in names}
    words = [
        _put_argument_in_words(name, value, ": ")
        for name, value in chosen.items()
        if not _is_argument_said_in_sentence(sentence, name, value)
    ]
    return " · ".join(words)


def _is_argument_said_in_sentence(sentence: str, name: str, value: Any) -> bool:
    """Whether a sentence says as much of an argument as its description would, which shortens a long value."""
    said = (
        _put_argument_in_words(name, value)
        if isinstance(value, bool | dict | list)
        else _put_scalar_in_words(format_argument_in_sentence(name, value))
    )
    beginning = said.removesuffix("…")
    return _contains_whole_words(" ".join(sentence.split()), beginning, may_continue=beginning != said)


def _contains_whole_words(text: str, words: str, *, may_continue: bool) -> bool:
    """Return whether words stand in a text, not as a part of longer words.

    A regular expression would be compiled for each argument, which takes longer than all else about it.

    Args:
        text: The text.
        words: The words, one or more.
        may_continue: Whether the last word may be the beginning of a longer one.
    """
    start = text.find(words)
    while start >= 0:
        end = start + len(words)
        is_begun_before = start > 0 and _is_part_of_word(text[start - 1])
        if not is_begun_before and (may_continue or end == len(text) or not _is_part_of_word(text[end])):
            return True
        start = text.find(words, start + 1)
    return False


def _is_part_of_word(letter: str) -> bool:
    return letter.isalnum() or letter == "_"


def put_tool_in_words(tool: str) -> str:
    """Return the name of a tool as the beginning of a sentence: “Refund card”."""
    words = _put_name_in_words(tool, 200)
    return f"{words[:1].upper()}{words[1:]}" if words else gettext("Unnamed tool")


def _put_name_in_words(name: str, limit: int = 60) -> str:
    return masked_formatting.mask_and_shorten_to_one_line(name, limit).translate(_SPACE_BETWEEN_WORDS).strip()


def format_argument_in_sentence(name: str, value: Any) -> Any:
    """Return the value of an argument as sentences say it: amounts with separators, times in a readable form."""
    return format_time_argument(format_amount_argument(name, value))


def _put_argument_in_words(name: str, value: Any, separator: str = " ") -> str:
    """Describe an argument without JSON: “order 17”, “branches (main, old)”, “labels (team ops)”, “rows (1 entry)”."""
    return f"{_put_name_in_words(name)}{separator}{_put_value_in_words(format_argument_in_sentence(name, value))}"


def _put_value_in_words(value: Any) -> str:
    if not isinstance(value, dict | list):
        return _put_scalar_in_words(value)
    return f"({_put_collection_in_words(value)})"


def _put_collection_in_words(value: dict[str, Any] | list[Any]) -> str:
    if not value:
        return gettext("none")
    inner = value.values() if isinstance(value, dict) else value
    if len(value) <= _MAX_LISTED_VALUES and not any(isinstance(item, dict | list) for item in inner):
        return _put_first_values_in_words(value)
    number = {"count": len(value)}
    if isinstance(value, dict):
        return ngettext("%(count)s field", "%(count)s fields", len(value)) % number
    return ngettext("%(count)s entry", "%(count)s entries", len(value)) % number


def _put_first_values_in_words(value: dict[str, Any] | list[Any]) -> str:
    """Name the values that are as long as one value may be, and at least two."""
    if isinstance(value, dict):
        words = [_put_argument_in_words(*field) for field in value.items()]
    else:
        words = list(map(_put_scalar_in_words, value))
    lengths = accumulate(len(word) + len(", ") for word in words)
    fitting = max(sum(length <= _MAX_VALUE_LENGTH + len(", ") for length in lengths), _MIN_LISTED_VALUES)
    first, omitted = ", ".join(words[:fitting]), len(words) - fitting
    if omitted <= 0:
        return first
    # Translators: the first values of a list among the arguments of a call, such as “ann, bob and 3 more”
    sentence = ngettext("%(values)s and %(count)s more", "%(values)s and %(count)s more", omitted)
    return sentence % {"values": first, "count": omitted}


def _put_scalar_in_words(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return gettext("yes") if value else gettext("no")
    return masked_formatting.mask_and_shorten_to_one_line(value)
