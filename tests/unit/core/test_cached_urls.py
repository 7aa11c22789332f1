"""Paths of pages that are reversed once per process."""

import pytest
from django.urls import get_script_prefix, reverse, set_script_prefix

from harness_site.core.cached_urls import get_page_path


@pytest.mark.parametrize(
    ("view_name", "keys"),
    [
        ("harness:home", ()),
        ("harness_sessions:session", (7,)),
        ("harness_sessions:session-call", (7, 123_456_789_012)),
    ],
)
def test_page_path_equals_the_reversed_url(view_name: str, keys: tuple[int, ...]) -> None:
    assert get_page_path(view_name, *keys) == reverse(view_name, args=keys)


def test_page_path_begins_with_the_prefix_of_the_request() -> None:
    before = get_script_prefix()
    get_page_path("harness_sessions:session", 7)
    set_script_prefix("/tools/")
    try:
        assert get_page_path("harness_sessions:session", 7) == "/tools/sessions/7/"
    finally:
        set_script_prefix(before)


def test_page_path_refuses_a_key_that_is_no_number() -> None:
    with pytest.raises(ValueError, match="format code"):
        get_page_path("harness_sessions:session", "")  # type: ignore[arg-type]
