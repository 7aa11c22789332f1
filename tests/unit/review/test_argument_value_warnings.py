"""Warnings about changed arguments that probably do not suit the tool."""

from typing import Any

import pytest

from harness_site.review.argument_value_warnings import list_argument_warnings


@pytest.mark.parametrize(
    ("name", "before", "after", "kind"),
    [
        ("amount", "40.00", "twenty", "an amount"),
        ("price", 40, None, "an amount"),
        ("days", 90, "ninety", "a number"),
        ("order", "50012", "A-50012", "a number"),
        ("to", "emma@example.org", "emma-at-example", "an e-mail address"),
        ("due", "2026-12-14", "2026-14-12", "a date"),
        ("at", "2026-12-14T10:00:00+01:00", "tomorrow", "a date"),
        ("currency", "EUR", "1e999", "the code of a currency"),
    ],
)
def test_value_that_lost_its_kind_is_named(name: str, before: Any, after: Any, kind: str) -> None:
    warnings = list_argument_warnings({name: before}, {name: after})
    assert warnings == (f"{name} was {kind}; the new value is not one.",)


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("amount", "40.00", 4.5),
        ("days", 90, "30"),
        ("to", "emma@example.org", "ben@example.org"),
        ("due", "2026-12-14", "2026-12-15"),
        ("currency", "EUR", "USD"),
        ("text", "a", "b"),
        ("urgent", True, "yes"),
        ("api_key", "12345678", "other"),
    ],
)
def test_value_of_the_same_kind_or_of_none_is_not_named(name: str, before: Any, after: Any) -> None:
    assert list_argument_warnings({name: before}, {name: after}) == ()


def test_added_argument_is_named_with_its_path() -> None:
    warnings = list_argument_warnings({"options": {"lock": 1}}, {"options": {"lock": 1, "wait": 2}, "note": 1})
    told = "If the tool has no such argument, it may refuse the call."
    assert warnings == (f"The agent did not send options.wait. {told}", f"The agent did not send note. {told}")


def test_arguments_that_are_no_object_have_no_warnings() -> None:
    assert list_argument_warnings(["a"], {"a": 1}) == ()
