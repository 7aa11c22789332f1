"""Labels of sessions."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from checkpoints.enums import Role
from checkpoints.models import AuditEvent, Session
from harness_site.search.models import Fact, Trait
from harness_site.sessions.views import edit_session_labels as views_labels
from tests.integration.search.conftest import complete
from tests.integration.sessions.test_session_list import listed
from tests.support.factories import make_session, make_user, make_workspace
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db


@pytest.fixture
def reader(client: Client) -> Client:
    client.force_login(make_user(name="alice", role=Role.APPROVER))
    return client


def ask(client: Client, *keys: int, label: str = "vip", what: str = "add", **more: str) -> tuple[int, str]:
    response = client.post(
        "/sessions/labels/", {"session": [str(pk) for pk in keys], "label": label, "what": what, **more}
    )
    return response.status_code, response.headers.get("Location", "")


def labels(session: Session) -> str:
    session.refresh_from_db()
    return session.labels


def test_label_is_added_to_several_sessions(reader: Client) -> None:
    one, two, other = make_session(labels='["late"]'), make_session(), make_session()
    assert ask(reader, one.pk, two.pk, query="agent=desk&after=x&rows=1") == (302, "/sessions/?agent=desk")
    assert (labels(one), labels(two), labels(other)) == ('["late","vip"]', '["vip"]', "[]")
    assert set(listed(reader, "/sessions/?label=vip")) == {one.pk, two.pk}
    events = AuditEvent.objects.filter(kind="labelled").order_by("pk").values_list("actor", "session_id")
    assert list(events) == [("alice", one.pk), ("alice", two.pk)]


def test_removed_label_is_not_found_by_filters(reader: Client) -> None:
    session = make_session(labels='["late","vip"]')
    complete()
    assert ask(reader, session.pk, label=" vip", what="remove", query="") == (302, "/sessions/")
    assert labels(session) == '["late"]'
    assert listed(reader, "/sessions/?label=vip") == []
    complete()
    assert listed(reader, "/sessions/?label=vip") == []


def test_labelling_updates_pages_but_not_the_last_activity(reader: Client) -> None:
    session = make_session()
    session.refresh_from_db()
    before = (session.updated_at, session.revision)
    ask(reader, session.pk)
    ask(reader, session.pk)
    session.refresh_from_db()
    assert (session.updated_at, session.revision) == (before[0], before[1] + 1)
    assert AuditEvent.objects.filter(kind="labelled").count() == 1


def test_number_of_labels_is_limited(reader: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views_labels, "MAX_LABELS", 1)
    free, full = make_session(), make_session(session_id="full-1", labels='["late"]')
    response = reader.post("/sessions/labels/", {"session": [free.pk, full.pk], "label": "vip", "what": "add"})
    assert response.status_code == 422
    assert "“full-1” already has 1 label. Nothing was changed" in visible_text(response)
    assert labels(free) == "[]"


@pytest.mark.parametrize("label", ["", " ", "x" * 61, "a\0b"])
def test_invalid_label_is_refused(reader: Client, label: str) -> None:
    session = make_session()
    assert ask(reader, session.pk, label=label)[0] == 422
    assert labels(session) == "[]"


def test_empty_label_is_explained_at_the_field_of_the_menu(reader: Client) -> None:
    session = make_session(labels='["late"]')
    response = reader.post("/sessions/labels/", {"session": [session.pk], "label": "", "what": "add"})
    assert response.status_code == 422
    assert f'<a class="btn" href="/sessions/{session.pk}/">Back to the session</a>' in response.content.decode()
    (menu,) = re.findall(r'id="labels".*?id="label-error"><li>(.*?)</li>', response.content.decode(), re.DOTALL)
    assert menu == "Enter a label."
    assert "late" in visible_text(response)


def test_too_long_label_is_refused_with_its_length_and_stays_in_the_field(reader: Client) -> None:
    session, label = make_session(), "x" * 61
    refusal = "A label has at most 60 characters, and this one has 61. Nothing was changed. Enter a shorter one."
    response = reader.post("/sessions/labels/", {"session": [session.pk], "label": label, "what": "add"})
    assert refusal in visible_text(response)
    assert f'value="{label}"' in response.content.decode()
    response = reader.post("/sessions/labels/", {"session": [session.pk], "label": label, "what": "add", "query": ""})
    assert (response.status_code, refusal in visible_text(response)) == (422, True)
    for page in ("/sessions/", f"/sessions/{session.pk}/"):
        fields = re.findall(r'<input[^>]* name="label"[^>]*>', reader.get(page).content.decode())
        assert any('id="bulk-label"' in field or 'id="new-label"' in field for field in fields)
        assert not any('maxlength="60"' in field for field in fields)  # a browser would cut what is pasted


def test_menu_in_an_open_page_gets_the_new_labels_without_a_redirect(reader: Client) -> None:
    session = make_session(labels='["late"]')
    fields = {"session": [session.pk], "label": "vip", "what": "add"}
    response = reader.post("/sessions/labels/", fields, headers={"HX-Request": "true"})
    assert response.status_code == 200
    links, forms = response.content.decode().split('id="labels"')
    assert re.findall(r'class="label" href="[^"]*">([^<]*)<', links) == ["late", "vip"]
    assert re.findall(r'<span class="label">([^<]*)<', forms) == ["late", "vip"]
    assert 'name="label" autocomplete="off" placeholder="New label" value=""' in forms
    foreign = make_session(workspace=make_workspace(slug="other"))
    fields["session"] = [foreign.pk]
    assert reader.post("/sessions/labels/", fields, headers={"HX-Request": "true"}).status_code == 404


@pytest.mark.parametrize("keys", [(), ("x",), ("9" * 30,)])
def test_labelling_without_sessions_changes_nothing(reader: Client, keys: tuple[str, ...]) -> None:
    response = reader.post("/sessions/labels/", {"session": keys, "label": "vip", "what": "add"})
    assert response.status_code == 422
    assert "Select at least one session in the list." in visible_text(response)


def test_sessions_of_another_workspace_are_not_labelled(reader: Client) -> None:
    foreign = make_session(workspace=make_workspace(slug="other"))
    ask(reader, foreign.pk)
    assert labels(foreign) == "[]"
    assert not AuditEvent.objects.filter(kind="labelled").exists()


def test_hostile_label_is_escaped_everywhere(reader: Client) -> None:
    session = make_session()
    ask(reader, session.pk, label="<script>alert(1)</script>")
    for address in ("/sessions/", f"/sessions/{session.pk}/"):
        page = reader.get(address).content.decode()
        assert "<script>alert" not in page
        assert "&lt;script&gt;alert(1)&lt;/script&gt;</a>" in page


@pytest.mark.parametrize("label", ["ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8", "x" * 61, " vip "])
def test_menu_of_a_session_removes_masked_and_long_labels(reader: Client, label: str) -> None:
    session = make_session(labels=json.dumps([label]))
    page = reader.get(f"/sessions/{session.pk}/").content.decode()
    (reference,) = re.findall(r'type="hidden" name="label" value="([^"]*)"', page)
    assert (label in reference) == (not label.startswith("ghp_"))
    assert ask(reader, session.pk, label=reference, what="remove") == (302, f"/sessions/{session.pk}/")
    assert labels(session) == "[]"


@pytest.mark.django_db(transaction=True)
def test_concurrent_label_changes_are_all_applied() -> None:
    sessions = [make_session(labels='["old"]') for _ in range(2)]
    keys = [str(session.pk) for session in sessions]
    people = [make_user(name=f"user-{number}", role=Role.APPROVER) for number in range(4)]
    barrier = Barrier(len(people))

    def change(person: User, order: list[str]) -> list[int]:
        client = Client()
        client.force_login(person)
        barrier.wait(60)
        try:
            asked = [(f"{person}-{number}", "add") for number in range(4)] + [("old", "remove")]
            return [
                client.post("/sessions/labels/", {"session": order, "label": label, "what": what}).status_code
                for label, what in asked
            ]
        finally:
            connection.close()

    with ThreadPoolExecutor(len(people)) as threads:
        done = threads.map(change, people, [keys, keys[::-1]] * 2)
    assert list(done) == [[302] * 5] * 4
    wanted = {f"{person}-{number}" for person in people for number in range(4)}
    for session in sessions:
        given = json.loads(labels(session))
        assert (len(given), set(given)) == (len(wanted), wanted)
        assert set(Fact.objects.filter(session=session, trait=Trait.LABEL).values_list("value", flat=True)) == wanted
    assert AuditEvent.objects.filter(kind="labelled").count() == 2 * (len(wanted) + 1)


def test_auditor_reads_labels_and_cannot_change_them(client: Client) -> None:
    client.force_login(make_user(role=Role.AUDITOR))
    session = make_session(labels='["vip"]')
    for address in ("/sessions/", f"/sessions/{session.pk}/"):
        response = client.get(address)
        assert "vip" in visible_text(response)
        assert "Add label" not in visible_text(response)
        assert b"csrfmiddlewaretoken" not in response.content.partition(b"<main")[2]
    assert ask(client, session.pk, what="remove")[0] == 403
    assert labels(session) == '["vip"]'


def test_auditor_selects_sessions_to_compare(client: Client) -> None:
    client.force_login(make_user(role=Role.AUDITOR))
    session, _ = make_session(), make_session(session_id="other")
    response = client.get("/sessions/")
    assert f'name="session" value="{session.pk}"' in response.content.decode()
    assert "Select two sessions to compare them." in visible_text(response)
    assert "Compare sessions" in visible_text(response)


def test_label_equal_to_the_agent_is_not_repeated_beside_it(reader: Client) -> None:
    session = make_session(agent="desk", labels='["desk","vip"]')
    for address in ("/sessions/", f"/sessions/{session.pk}/"):
        page = reader.get(address).content.decode()
        assert re.findall(r'class="label" href="[^"]*">([^<]*)<', page) == ["vip"]
