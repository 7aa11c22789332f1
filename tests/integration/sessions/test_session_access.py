"""Access to session pages, and their messages for missing objects."""

import re
from html import unescape

import pytest
from django.test import Client

from checkpoints.enums import Role
from checkpoints.models import Session
from tests.support.exhaustive_mode import mark_all_but_combinations
from tests.support.factories import (
    make_call,
    make_checkpoint,
    make_message,
    make_run,
    make_session,
    make_user,
    make_workspace,
)
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db

PAGES = [
    "",
    "messages/0/",
    "messages/0/images/1/",
    "messages/0/audio/1/",
    "versions/",
    "compare/?a=1&b=2",
    "calls/",
    "calls/{call}/",
    "timeline/",
    "workflows/",
    "peers/",
    "plan/",
    "history/",
]


def full_session(workspace: str = "default") -> tuple[Session, int]:
    session = make_session(workspace=make_workspace(slug=workspace))
    make_run(session=session)
    picture = {"kind": "image", "url": "data:image/png;base64,AAAA"}
    sound = {"kind": "audio", "url": "data:audio/wav;base64,AAAA"}
    make_message(session=session, blocks=[{"kind": "text", "text": "Look."}, picture, sound])
    make_checkpoint(session=session)
    make_checkpoint(session=session)
    return session, make_call(session=session).pk


@pytest.mark.parametrize("page", ["/sessions/", "/sessions/find/?id=x", *[f"/sessions/1/{page}" for page in PAGES]])
def test_session_pages_require_sign_in(client: Client, page: str) -> None:
    response = client.get(page.format(call=1))
    assert response.status_code == 302
    assert response.headers["Location"].startswith("/accounts/login/")


@pytest.mark.parametrize("page", PAGES)
def test_non_member_is_refused(client: Client, page: str) -> None:
    session, call = full_session()
    client.force_login(make_user(name="mallory", role=None))
    assert client.get(f"/sessions/{session.pk}/{page.format(call=call)}").status_code == 403


@pytest.mark.parametrize(("page", "role"), mark_all_but_combinations(list(PAGES), list(Role)))
def test_every_member_may_read(client: Client, page: str, role: Role) -> None:
    session, call = full_session()
    client.force_login(make_user(role=role))
    assert client.get(f"/sessions/{session.pk}/{page.format(call=call)}").status_code == 200


def test_each_page_has_a_title_of_its_own_with_the_session(client: Client) -> None:
    session, call = full_session()
    fork = make_session(session_id="order-17-again", title=session.title, forked_from=session, forked_version=1)
    client.force_login(make_user())
    pages = [*PAGES, "files/", "costs/", "subagents/", "fork/?v=1"]
    titles = [_get_title(client, f"/sessions/{session.pk}/{page.format(call=call)}") for page in pages]
    titles = [title for title in titles if title]  # images and sounds have none
    assert titles[0] == f"Transcript · {session.title} · Harness"
    assert "Message 1 · " in " ".join(titles)
    assert len(set(titles)) == len(titles)
    assert {title.partition(" · ")[2] for title in titles} == {f"{session.title} · Harness"}
    assert _get_title(client, f"/sessions/{fork.pk}/calls/") == "Tool calls · order-17-again · Harness"
    Session.objects.filter(pk=fork.pk).update(title="Another way")
    assert _get_title(client, f"/sessions/{fork.pk}/calls/") == "Tool calls · Another way · Harness"
    assert _get_title(client, "/sessions/999/") == "Not found · Harness"


def _get_title(client: Client, address: str) -> str:
    page = client.get(address).content.decode(errors="replace")
    return re.sub(r"^\(\d+\) ", "", unescape(page.partition("<title>")[2].partition("</title>")[0]))


@pytest.mark.parametrize("page", PAGES)
def test_session_of_another_workspace_is_not_found(client: Client, page: str) -> None:
    session, call = full_session("other")
    client.force_login(make_user())
    response = client.get(f"/sessions/{session.pk}/{page.format(call=call)}")
    assert response.status_code == 404
    assert "There is no such session here." in visible_text(response)


@pytest.mark.parametrize(
    ("page", "pk"), mark_all_but_combinations(PAGES, ["999999", "9" * 18, "9223372036854775808", "9" * 60])
)
def test_unknown_session_is_explained(client: Client, page: str, pk: str) -> None:
    client.force_login(make_user())
    response = client.get(f"/sessions/{pk}/{page.format(call=1)}")
    assert response.status_code == 404
    assert "There is no such session here." in visible_text(response)


@pytest.mark.parametrize("page", PAGES)
def test_session_pages_accept_only_get(client: Client, page: str) -> None:
    session, call = full_session()
    client.force_login(make_user())
    assert client.post(f"/sessions/{session.pk}/{page.format(call=call)}").status_code == 405


@pytest.mark.parametrize("version", ["99", "0", "-1", "1.5", "abc", "9" * 30, "1'", "\u0661", "<script>"])
def test_unknown_version_is_explained(client: Client, version: str) -> None:
    session, _ = full_session()
    client.force_login(make_user())
    for page in ("", "messages/0/", "compare/"):
        response = client.get(f"/sessions/{session.pk}/{page}", {"v": version, "a": version})
        assert response.status_code == 404
        assert f"This session has no version {version[:20]}." in visible_text(response)
        assert "Its newest version is 2." in visible_text(response)


def test_version_of_a_session_without_versions_is_explained(client: Client) -> None:
    client.force_login(make_user())
    response = client.get(f"/sessions/{make_session().pk}/compare/", {"a": "1"})
    assert response.status_code == 404
    page = visible_text(response)
    assert "This session has no version yet. Each call of “save_checkpoint” adds a version." in page
    assert "deleted" not in page


@pytest.mark.parametrize("query", ["before=x", "after=-1", "at=99999999999", "since=1e9", "before=0", "after=", "at=1"])
def test_invalid_position_shows_the_default(client: Client, query: str) -> None:
    session, _ = full_session()
    client.force_login(make_user())
    assert client.get(f"/sessions/{session.pk}/?{query}").status_code == 200


@pytest.mark.parametrize("page", ["messages/1/", "messages/99999999999999999999/", "calls/999999/", "calls/{huge}/"])
def test_missing_part_of_a_session_is_explained(client: Client, page: str) -> None:
    session, _ = full_session()
    client.force_login(make_user())
    response = client.get(f"/sessions/{session.pk}/{page.format(huge='9' * 40)}")
    assert response.status_code == 404
    assert "has no " in visible_text(response)


def test_call_of_another_session_is_not_found(client: Client) -> None:
    session, _ = full_session()
    _, foreign = full_session()
    client.force_login(make_user())
    response = client.get(f"/sessions/{session.pk}/calls/{foreign}/")
    assert response.status_code == 404
    assert "This session has no such call." in visible_text(response)
    assert (
        f'<a class="btn primary" href="/sessions/{session.pk}/calls/">See its tool calls</a>'
        in response.content.decode()
    )
