"""The public interface is documented: arguments, results and errors, on the async classes as well."""

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

import checkpoints
from checkpoints import enums, exceptions
from checkpoints.importers import import_errors
from tests.support import library_reference_page
from tests.support.docstring_parser import read_docstring
from tests.support.library_reference_page import (
    ASYNC_TWINS,
    GROUPS,
    import_documented_object,
    public_members,
    signature_of,
)

DESCRIBED = {
    f"{group.module}.{name}": import_documented_object(group.module, name) for group in GROUPS for name in group.names
} | {f"checkpoints.{name}": getattr(checkpoints, name) for name in ASYNC_TWINS.values()}
CLASSES = {name: what for name, what in DESCRIBED.items() if isinstance(what, type)}
QUESTION = re.compile(r"(What|Who|Whose|Where|Whether|When|Why|How)\b")


def functions() -> Iterator[tuple[str, Any]]:
    for name, what in DESCRIBED.items():
        if inspect.isfunction(what):
            yield name, what
    for name, kind in CLASSES.items():
        for member, described in public_members(kind):
            if not isinstance(described, property):
                yield f"{name}.{member}", getattr(described, "__func__", described)
        if inspect.isfunction(vars(kind).get("__init__")) and not is_generated(kind):
            yield f"{name}.__init__", vars(kind)["__init__"]


def is_generated(kind: type) -> bool:
    """Return whether a constructor takes the fields of a dataclass, is that of a handle, which a client makes, or that
    of a protocol."""
    if issubclass(kind, Exception) or getattr(kind, "_is_protocol", False) or kind.__name__.endswith("SessionHandle"):
        return True
    return dataclasses.is_dataclass(kind) and kind is not checkpoints.ToolRegistry


FUNCTIONS = dict(functions())
PROPERTIES = {
    f"{name}.{member}": described
    for name, kind in CLASSES.items()
    for member, described in public_members(kind)
    if isinstance(described, property)
}


def test_every_public_name_is_described() -> None:
    missing = {name for name in checkpoints.__all__ if f"checkpoints.{name}" not in DESCRIBED}

    assert missing <= {"exceptions", *(each.__name__ for each in DESCRIBED.values() if isinstance(each, type))}


@pytest.mark.parametrize("name", sorted(FUNCTIONS | PROPERTIES | CLASSES))
def test_first_line_is_a_sentence(name: str) -> None:
    first_line = read_docstring((FUNCTIONS | PROPERTIES | CLASSES)[name]).first_line

    assert re.fullmatch(r"[A-Z`].*[.:]", first_line), first_line
    assert QUESTION.match(first_line) is None or name in PROPERTIES


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_argument_is_documented(name: str) -> None:
    parameters = list(signature_of(FUNCTIONS[name]).parameters)

    assert sorted(read_docstring(FUNCTIONS[name]).entries.get("Args", {})) == sorted(parameters)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_result_is_documented(name: str) -> None:
    returns_something = signature_of(FUNCTIONS[name]).return_annotation != "None"

    assert bool(read_docstring(FUNCTIONS[name]).returns) is returns_something


@pytest.mark.parametrize("name", sorted(FUNCTIONS | PROPERTIES))
def test_every_documented_error_exists(name: str) -> None:
    for error in read_docstring((FUNCTIONS | PROPERTIES)[name]).entries.get("Raises", {}):
        assert issubclass(
            getattr(exceptions, error, None) or getattr(import_errors, error), exceptions.CheckpointsError
        )


@pytest.mark.parametrize("name", sorted(name for name, kind in CLASSES.items() if dataclasses.is_dataclass(kind)))
def test_every_field_is_documented(name: str) -> None:
    kind: Any = CLASSES[name]
    if kind is checkpoints.ToolRegistry:  # its constructor is documented
        return
    fields = {field.name for field in dataclasses.fields(kind)}

    assert set(read_docstring(kind).entries.get("Attributes", {})) - {"phase"} == fields


@pytest.mark.parametrize(("blocking", "asynchronous"), sorted(ASYNC_TWINS.items()))
def test_async_methods_have_the_same_sections(blocking: str, asynchronous: str) -> None:
    twin = dict(public_members(getattr(checkpoints, asynchronous)))
    for name, described in public_members(getattr(checkpoints, blocking)):
        assert read_docstring(twin[name]).entries == read_docstring(described).entries, name


@pytest.mark.parametrize("module", library_reference_page.list_error_modules(), ids=lambda module: module.__name__)
def test_every_error_is_described_and_imported_from_one_place(module: ModuleType) -> None:
    for kind in library_reference_page.list_errors(module):
        assert re.match(r"[A-Z].*\.", vars(kind).get("__doc__") or ""), kind
        assert getattr(exceptions, kind.__name__) is kind


@pytest.mark.parametrize("name", library_reference_page.ENUMS)
def test_every_enumeration_is_described(name: str) -> None:
    assert re.match(r"[A-Z].*\.", vars(getattr(enums, name)).get("__doc__") or "")


def test_reference_is_up_to_date() -> None:
    # To write it anew: make reference
    assert library_reference_page.PAGE.read_text() == library_reference_page.build_page()


def test_docstring_is_read_into_its_parts() -> None:
    def work(url: str, *, limit: int) -> int:
        """Do something.

        More about it.

        Args:
            url: Address of the
                server: one.
            limit: Seconds.

        Returns:
            A number, and
            more.

        Raises:
            InvalidInput: Never.
        """
        raise NotImplementedError

    read: Callable[..., Any] = work
    docstring = read_docstring(read)

    assert (docstring.text, docstring.returns) == ("Do something.\n\nMore about it.", "A number, and more.")
    assert docstring.entries == {
        "Args": {"url": "Address of the server: one.", "limit": "Seconds."},
        "Raises": {"InvalidInput": "Never."},
    }
