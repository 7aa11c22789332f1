"""Comparison of payloads and session fields."""

from typing import Any

import pytest
from django.test import Client

from checkpoints.formats import to_canonical_json
from checkpoints.models import Session
from harness_site.sessions.compare import json_diff
from tests.support.factories import make_checkpoint, make_run, make_session, make_workspace
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db


def saved(*payloads: dict[str, Any] | None) -> Session:
    session = make_session()
    make_run(session=session)
    for payload in payloads:
        make_checkpoint(session=session, payload=None if payload is None else to_canonical_json(payload))
    return session


def page(reader: Client, session: Session) -> Any:
    return reader.get(f"/sessions/{session.pk}/compare/?a=1&b=2")


def test_payload_fields_are_compared(reader: Client) -> None:
    session = saved({"phase": {"turn": 3, "old": True}, "same": 1}, {"phase": {"turn": 4, "new": "x"}, "same": 1})
    words = visible_text(page(reader, session))
    assert "Payload 3 differences" in words
    assert '+ phase.new "x"' in words
    assert "− phase.old true" in words
    assert "~ phase.turn 3 → 4" in words


def test_added_payload_is_a_difference(reader: Client) -> None:
    assert "Payload 1 difference" in visible_text(page(reader, saved(None, {})))


def test_long_object_is_indented(reader: Client) -> None:
    added = {"answer": {"blocks": [{"kind": "text", "text": "It was paid with the card. " * 4}], "role": "assistant"}}
    html = page(reader, saved({}, added)).content.decode()
    assert "{\n  &quot;blocks&quot;: [\n    {" in html


def test_unchanged_payload_is_not_shown(reader: Client) -> None:
    assert "Payload" not in visible_text(page(reader, saved({"a": 1}, {"a": 1})))


def test_title_agent_labels_and_metadata_of_two_sessions_are_compared(reader: Client) -> None:
    one, other = saved({}), saved({})
    told = {"title": "Lamps", "agent": "desk", "labels": '["vip"]', "metadata": '{"customer":7}'}
    Session.objects.filter(pk=other.pk).update(**told)
    words = visible_text(reader.get(f"/sessions/{one.pk}/compare/?with={other.pk}"))
    assert "Session data 4 differences" in words
    assert 'title "Refund for a broken lamp" → "Lamps"' in words
    assert "metadata.customer 7" in words
    Session.objects.filter(pk=other.pk).update(title=one.title, agent=one.agent, labels="[]", metadata="{broken")
    assert 'Session data 1 difference ~ metadata {} → "{broken"' in visible_text(
        reader.get(f"/sessions/{one.pk}/compare/?with={other.pk}")
    )
    assert "Session data" not in visible_text(reader.get(f"/sessions/{one.pk}/compare/?a=1&b=1"))


def test_other_session_is_selected_by_its_id(reader: Client) -> None:
    one, other = saved({}), saved({})
    address = f"/sessions/{one.pk}/compare/"
    assert 'name="other"' in reader.get(f"{address}?a=1&b=1").content.decode()
    assert reader.get(address, {"a": "1", "other": f" {other.session_id} "}).headers["Location"] == (
        f"{address}?with={other.pk}&a=1"
    )
    foreign = make_session(workspace=make_workspace(slug="elsewhere"))
    missing = reader.get(address, {"a": "1", "b": "1", "other": foreign.session_id})
    assert missing.status_code == 404
    assert "There is no session with this id here." in visible_text(missing)
    assert f'name="other" value="{foreign.session_id}"' in missing.content.decode()
    assert "Version 1" in visible_text(missing)


def test_id_of_the_other_session_stays_in_the_form(reader: Client) -> None:
    one, other = saved({}), saved({})
    address = f"/sessions/{one.pk}/compare/"
    html = reader.get(f"{address}?with={other.pk}&a=1&b=1").content.decode()
    assert f'name="other" value="{other.session_id}"' in html
    for word, session in (("From", one), ("to", other)):  # one item of the label, without a gap before the comma
        assert f"<span>{word} <bdi>{session.session_id}</bdi>, version</span>" in html
    again = reader.get(address, {"with": str(other.pk), "a": "1", "b": "1", "other": other.session_id})
    assert again.status_code == 200
    assert f"to {other.session_id}, version" in visible_text(again)
    emptied = reader.get(address, {"with": str(other.pk), "a": "1", "b": "1", "other": ""})
    assert emptied.headers["Location"] == f"{address}?with={one.pk}&a=1"


def test_secrets_in_deep_differences_are_masked(reader: Client) -> None:
    session = saved({"password": {"inner": "hunter-one"}, "b": 1}, {"password": {"inner": "hunter-two"}, "b": 2})
    html = page(reader, session).content.decode()
    assert "password.inner" in html
    assert "hunter" not in html


def test_names_and_values_are_escaped(reader: Client) -> None:
    script = "<script>alert(1)</script>"
    html = page(reader, saved({"a": 1}, {"a": 1, script: script})).content.decode()
    assert script not in html
    assert html.count("&lt;script&gt;alert(1)") >= 2


def test_omitted_differences_are_counted(reader: Client) -> None:
    many = {f"field-{number:04}": number for number in range(json_diff.MAX_LISTED_CHANGES + 3)}
    words = visible_text(page(reader, saved({}, many)))
    assert f"Payload {json_diff.MAX_LISTED_CHANGES + 3} differences" in words
    assert "3 further differences are not shown." in words


def test_damaged_payload_is_shown_as_text(reader: Client) -> None:
    session = saved({"a": 1}, {"a": 2})
    session.checkpoints.filter(version=1).update(payload="{broken")
    assert "{broken" in visible_text(page(reader, session))
