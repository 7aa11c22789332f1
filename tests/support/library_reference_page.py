"""Generator of docs/api.md from signatures and docstrings; `make reference` runs it."""

from __future__ import annotations

import dataclasses
import enum
import importlib
import inspect
import os
import pkgutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, cast

from checkpoints import exceptions
from checkpoints.exceptions import CheckpointsError
from tests.support.docstring_parser import Docstring, read_docstring

PAGE = Path(__file__).parents[2] / "docs" / "api.md"

INTRODUCTION = """\
# API reference

This page is generated from signatures and docstrings by `make reference`; a test fails where it is out of date.
Everything here that names no module is imported from `checkpoints`.
"""


class Group(NamedTuple):
    """Section of the page: names of one module, and a note about all of them."""

    title: str
    module: str
    names: tuple[str, ...]
    note: str = ""


_SAME = "`{}` has the same methods for async code: the same parameters, results and errors, awaited{}."

GROUPS = (
    Group(
        "Clients",
        "checkpoints",
        ("SyncCheckpointer", "check_pending_tool_calls"),
        _SAME.format("Checkpointer", "; `session` and `open` are not awaited") + " Each method is documented once.",
    ),
    Group(
        "One session in a block",
        "checkpoints",
        ("SyncSessionHandle", "ResumePoint", "UNCHANGED"),
        _SAME.format("SessionHandle", ""),
    ),
    Group("Tools", "checkpoints", ("ToolRegistry", "tool", "Tool", "ToolResult", "Landed", "NotLanded", "Unknown")),
    Group("Tools of a framework", "checkpoints", ("guard", "aguard", "ToolPolicies", "ValueCodec")),
    Group("Decisions", "checkpoints", ("Actor",), "The decisions themselves are methods of the clients."),
    Group("Workflows", "checkpoints", ("SyncWorkflow",), _SAME.format("Workflow", "")),
    Group(
        "Writing behind",
        "checkpoints",
        ("SyncWriteBehind", "Cadence"),
        _SAME.format("WriteBehind", "; `unsaved` is not awaited"),
    ),
    Group(
        "Session files",
        "checkpoints",
        ("SyncSessionFiles",),
        _SAME.format("SessionFiles", "; `path` is not awaited"),
    ),
    Group(
        "Phases",
        "checkpoints.loop_state",
        (
            "RuntimeSnapshot",
            "ToolExecution",
            "SubagentExecution",
            "PhaseDetails",
            "RunStarted",
            "StepStarted",
            "PreLlm",
            "PostLlm",
            "PreToolBatch",
            "PostToolBatch",
            "PreSubagentBatch",
            "PostSubagentBatch",
            "Paused",
            "Resumed",
            "RunTerminal",
        ),
    ),
    Group(
        "Other agents",
        "checkpoints.peers",
        (
            "Join",
            "PeerCall",
            "Paused",
            "Answer",
            "Accepted",
            "Duplicate",
            "Early",
            "Late",
            "Cancelled",
            "Foreign",
            "Unknown",
            "TakenTask",
            "TakenJoin",
            "PeerResult",
            "Notice",
            "Told",
            "Swept",
        ),
    ),
    Group(
        "Importers",
        "checkpoints.importers",
        (
            "import_transcripts",
            "load_price_table",
            "ImportReport",
            "ImportProgress",
            "DamagedPlace",
            "RefusedFile",
            "FormatRefused",
            "ImportRefused",
            "NothingToImport",
        ),
    ),
    Group("Results: runs", "checkpoints.store.owning_run_protocol", ("OwningRun",)),
    Group("Results: versions removed", "checkpoints.sessions.version_retention_rule", ("RemovalCounts",)),
    Group("Results: exported files", "checkpoints.archive.archive_results", ("ExportedFile",)),
    Group("Results: imported sessions", "checkpoints.archive.archive_results", ("ImportedSession",)),
    Group("Results: imported records", "checkpoints.versions.imported_phase_records", ("ImportedRecord",)),
    Group("Results: tickets", "checkpoints.versions.queued_snapshots", ("Ticket",)),
)
#: Async classes by the blocking class that documents them.
ASYNC_TWINS = {
    "SyncCheckpointer": "Checkpointer",
    "SyncSessionHandle": "SessionHandle",
    "SyncWorkflow": "Workflow",
    "SyncWriteBehind": "WriteBehind",
    "SyncSessionFiles": "SessionFiles",
}
ENUMS = (
    "SessionStatus",
    "RunStatus",
    "Phase",
    "CallStatus",
    "SideEffect",
    "Risk",
    "KeyScope",
    "DecisionKind",
    "InterruptReason",
    "ActorKind",
    "Role",
)


def import_documented_object(module: str, name: str) -> Any:
    """Return a documented object by module and name."""
    return getattr(importlib.import_module(module), name)


def public_members(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties of a class by name, in the order of the source, own ones first."""
    seen = set[str]()
    for base in kind.__mro__:
        if not base.__module__.startswith("checkpoints."):
            continue
        for name in vars(base):
            member = inspect.getattr_static(kind, name)
            field = name in getattr(kind, "__dataclass_fields__", {})
            if not field and not name.startswith("_") and name not in seen and is_described(member):
                seen.add(name)
                yield name, member


def is_described(member: object) -> bool:
    """Return True if a member of a class is a method or property, and no field or constant."""
    return inspect.isfunction(member) or isinstance(member, property | classmethod)


def signature_of(function: Any) -> inspect.Signature:
    """Return a signature without `self`."""
    signature = inspect.signature(inspect.unwrap(getattr(function, "__func__", function)))
    parameters = [parameter for parameter in signature.parameters.values() if parameter.name not in {"self", "cls"}]
    return signature.replace(parameters=parameters)


def build_page() -> str:
    """Return the whole page."""
    parts = [INTRODUCTION, _format_table_of_contents()]
    for group in GROUPS:
        parts.append(f"## {group.title}\n")
        if group.module != "checkpoints":
            parts.append(f"Module `{group.module}`.\n")
        if group.note:
            parts.append(f"{group.note}\n")
        parts += [
            part for name in group.names for part in _format_object(name, import_documented_object(group.module, name))
        ]
    return "\n".join([*parts, _format_errors(), _format_enumerations()])


def _format_table_of_contents() -> str:
    titles = [*(group.title for group in GROUPS), "Errors", "Enumerations"]
    return "".join(f"- [{title}](#{_make_anchor(title)})\n" for title in titles)


def _make_anchor(title: str) -> str:
    return "".join(letter for letter in title.lower().replace(" ", "-") if letter.isalnum() or letter == "-")


def _format_object(name: str, documented_object: Any) -> Iterator[str]:
    if inspect.isfunction(documented_object):
        yield from _format_function(name, documented_object, "###")
    elif isinstance(documented_object, type):
        yield from _format_class(name, documented_object)
    else:
        yield f"### `{name}`\n\nKeeps the value of the previous version where it is passed for one.\n"


def _format_class(name: str, kind: type) -> Iterator[str]:
    yield f"### class `{name}`\n"
    yield f"{read_docstring(kind).text}\n"
    if dataclasses.is_dataclass(kind) and "__init__" not in _list_methods_with_own_docstring(kind):
        yield _format_code_block(f"{name}({_format_dataclass_fields(kind)})")
        yield from _format_docstring_sections(read_docstring(kind))
    elif not issubclass(kind, Exception) and "__init__" in _list_methods_with_own_docstring(kind):
        yield _format_code_block(_format_signature(name, kind.__init__, returns=False))
        yield from _format_docstring_sections(read_docstring(kind.__init__))
    for member, described in public_members(kind):
        if isinstance(described, property):
            yield f"#### `{name}.{member}`\n"
            yield f"{read_docstring(described).text}\n"
            yield from _format_docstring_sections(read_docstring(described))
        else:
            yield from _format_function(f"{name}.{member}", described, "####")


def _list_methods_with_own_docstring(kind: type) -> set[str]:
    """Return the names of a class's methods that have a docstring of their own."""
    return {name for name, value in vars(kind).items() if inspect.isfunction(value) and value.__doc__}


def _format_function(name: str, function: Any, level: str) -> Iterator[str]:
    docstring = read_docstring(getattr(function, "__func__", function))
    yield f"{level} `{name}`\n"
    yield _format_code_block(_format_signature(name.rpartition(".")[2], function))
    yield f"{docstring.text}\n"
    yield from _format_docstring_sections(docstring)


def _format_code_block(text: str) -> str:
    return f"```text\n{text}\n```\n"


def _format_signature(name: str, function: Any, *, returns: bool = True) -> str:
    signature = signature_of(function)
    parts, keyword_only = list[str](), False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            if not any(other.kind is other.VAR_POSITIONAL for other in signature.parameters.values()):
                parts.append("*")
        parts.append(_format_parameter(parameter))
    positional = [
        parameter for parameter in signature.parameters.values() if parameter.kind is parameter.POSITIONAL_ONLY
    ]
    if positional:
        parts.insert(len(positional), "/")
    result = f" -> {signature.return_annotation}" if returns else ""
    prefix = "async " if inspect.iscoroutinefunction(function) else ""
    return _wrap_signature(f"{prefix}{name}", parts, result)


def _wrap_signature(name: str, parameters: list[str], result: str) -> str:
    line = f"{name}({', '.join(parameters)}){result}"
    if len(line) <= 110:
        return line
    return "\n".join([f"{name}(", *(f"    {parameter}," for parameter in parameters), f"){result}"])


def _format_parameter(parameter: inspect.Parameter) -> str:
    star = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(parameter.kind.name, "")
    default = "" if parameter.default is parameter.empty else f" = {_format_default_value(parameter.default)}"
    return f"{star}{parameter.name}: {parameter.annotation}{default}"


def _format_dataclass_fields(kind: Any) -> str:
    parts = []
    for field in dataclasses.fields(kind):
        default, factory = "", cast("Any", field.default_factory)
        if field.default is not dataclasses.MISSING:
            default = f" = {_format_default_value(field.default)}"
        elif factory is not dataclasses.MISSING:
            default = f" = {factory.__name__}()"
        parts.append(f"{field.name}: {field.type}{default}")
    line = ", ".join(parts)
    return line if len(line) <= 90 else "".join(f"\n    {part}," for part in parts) + "\n"


def _format_default_value(value: object) -> str:
    if isinstance(value, enum.Enum):
        return repr(value.value)
    if inspect.isfunction(value):
        return value.__name__
    if isinstance(value, frozenset):
        return "{" + ", ".join(sorted(_format_default_value(item) for item in value)) + "}"
    return repr(value)


def _format_docstring_sections(docstring: Docstring) -> Iterator[str]:
    for section, title in (("Args", "Arguments"), ("Attributes", "Attributes")):
        entries = docstring.entries.get(section)
        if entries:
            yield f"{title}:\n"
            yield _format_list(entries.items())
    if docstring.returns:
        yield f"Returns: {docstring.returns}\n"
    if docstring.entries.get("Raises"):
        yield "Raises:\n"
        yield _format_list(docstring.entries["Raises"].items())


def _format_list(entries: Iterable[tuple[str, str]]) -> str:
    return "".join(f"- `{name}`: {text}\n" for name, text in entries)


def list_error_modules() -> list[ModuleType]:
    """List the modules of `checkpoints.exceptions`, the base class first."""
    names = sorted(module.name for module in pkgutil.iter_modules(exceptions.__path__))
    names.sort(key=lambda name: name != "base_error")
    return [importlib.import_module(f"checkpoints.exceptions.{name}") for name in names]


def list_errors(module: ModuleType) -> list[type[CheckpointsError]]:
    """List the errors that a module defines, in their order there."""
    return [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, CheckpointsError) and value.__module__ == module.__name__
    ]


def _format_errors() -> str:
    parts = [
        "## Errors\n",
        "Module `checkpoints.exceptions`. Each error says what happened and what to do next; `code` names its class.\n",
    ]
    for module in list_error_modules():
        parts.append(f"{(module.__doc__ or '').strip()}\n")
        parts.append("| error | base | code | meaning |\n| --- | --- | --- | --- |")
        for kind in list_errors(module):
            meaning = " ".join(read_docstring(kind).text.split())
            parts.append(f"| `{kind.__name__}` | `{kind.__bases__[0].__name__}` | `{kind.code}` | {meaning} |")
        parts.append("")
    return "\n".join(parts)


def _format_enumerations() -> str:
    from checkpoints import enums

    parts = ["## Enumerations\n", "Module `checkpoints.enums`. Each member equals its text.\n"]
    for name in ENUMS:
        kind = getattr(enums, name)
        members = ", ".join(f"`{member.value}`" for member in kind)
        parts.append(f"### `{name}`\n\n{read_docstring(kind).text}\n\n{members}\n")
    return "\n".join(parts)


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "harness_site.settings")

    import django

    django.setup()
    PAGE.write_text(build_page())
