import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any

import pytest
from django.urls import include, path, set_urlconf

from checkpoints.formats.parse_message_parts import TextPart
from harness_site.sessions.message_html import render_message_html
from harness_site.sessions.selectors.conversation_window import MessageEntry

SCRIPT = "<script>alert(1)</script>"


def render(role: str = "user", text: str = "Hello", answer_time: timedelta | None = None, **variables: object) -> str:
    at = datetime(2026, 11, 25, tzinfo=UTC)
    entry = MessageEntry(1, 4, role, at, 2, 1, 10, {}, (TextPart(text),), answer_time)
    given: Mapping[str, Any] = {
        "session_pk": 7,
        "at": None,
        "version_text": "3",
        "whole": False,
        "offline": False,
        "brief": False,
        "has_no_times": False,
        **variables,
    }
    return render_message_html(entry, given)


@pytest.mark.parametrize("offline", [False, True])
def test_role_and_text_are_escaped_once(offline: bool) -> None:
    html = render(f"{SCRIPT} & co", f"{SCRIPT} & co", offline=offline)
    assert "<script" not in html
    assert html.count("&lt;script&gt;alert(1)&lt;/script&gt; &amp; co") == 2


def test_offline_message_has_no_link_into_the_site() -> None:
    assert 'href="#m-4"' in render(offline=True)
    assert "/sessions/" not in render(offline=True)


def test_links_follow_the_url_configuration_of_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    mounted = ModuleType("mounted")
    mounted.urlpatterns = [path("office/", include("harness_site.urls"))]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mounted", mounted)
    assert 'href="/sessions/7/?v=2"' in render()
    set_urlconf("mounted")
    try:
        assert 'href="/office/sessions/7/?v=2"' in render()
    finally:
        set_urlconf(None)
    assert 'href="/sessions/7/?v=2"' in render()


def test_message_of_the_page_position_gets_the_focus() -> None:
    assert " autofocus>" in render(at=4)
    assert "autofocus" not in render(at=5)


def test_time_to_answer_is_named_if_it_is_long_enough_to_matter() -> None:
    assert ">after 17 s</span>" in render(answer_time=timedelta(seconds=17))
    assert 'class="took"' not in render(answer_time=timedelta(milliseconds=9))
