"""Comparison of payloads and session fields."""

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from checkpoints.formats import to_canonical_json
from checkpoints.models import Session
from harness_site.search import indexer
from harness_site.sessions.compare import json_diff
from tests.support.factories import THEN, make_checkpoint, make_message, make_run, make_session, make_workspace
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


def test_newest_sessions_are_offered_by_title_and_short_id(reader: Client) -> None:
    one, other = saved({}), saved({})
    Session.objects.filter(pk=other.pk).update(
        title="Lamps", agent="desk", session_id="0ccf1a04-1b4c-43b6-8aa5-79e41db43a68/agent-1"
    )
    make_session(workspace=make_workspace(slug="elsewhere"), title="Not for you")
    response = reader.get(f"/sessions/{one.pk}/compare/?a=1&b=1")
    assert (
        "Sessions of the same agent, similar ones first, then the newest of all Lamps 0ccf1a04…/agent-1 · desk ·"
        in visible_text(response)
    )
    html = response.content.decode()
    assert f'href="/sessions/{one.pk}/compare/?with={other.pk}&amp;a=1"' in html
    assert f"?with={one.pk}" not in html
    assert "Not for you" not in html
    assert "There is no other session yet." not in html
    alone = reader.get(f"/sessions/{one.pk}/compare/?with={other.pk}")
    assert "There is no other session yet." in visible_text(alone)
    assert f'<a class="small" href="/sessions/{one.pk}/compare/">Compare versions of this session only</a>' in (
        alone.content.decode()
    )


def test_sessions_of_the_agent_with_a_common_label_or_a_similar_title_are_offered_first(reader: Client) -> None:
    one, labelled, similar, of_agent, other, foreign = (saved({}) for _ in range(6))
    facts = {
        one: ("Research battery prices", "research", ["vip"]),
        labelled: ("A report", "research", ["vip", "late"]),
        similar: ("research battery prices again", "research", []),
        of_agent: ("Prices", "research", []),
        other: ("Research battery prices", "desk", ["vip"]),
        foreign: ("Parcel", "mail", []),
    }
    for age, (session, (title, agent, labels)) in enumerate(reversed(facts.items())):
        Session.objects.filter(pk=session.pk).update(
            title=title, agent=agent, labels=json.dumps(labels), updated_at=THEN - timedelta(minutes=age)
        )
    html = reader.get(f"/sessions/{one.pk}/compare/?a=1&b=1").content.decode()
    offered = [int(pk) for pk in re.findall(r"\?with=(\d+)&amp;a=1", html)]
    assert offered == [session.pk for session in (similar, labelled, of_agent, foreign, other)]
    Session.objects.filter(pk=one.pk).update(agent="")
    assert "Newest sessions" in visible_text(reader.get(f"/sessions/{one.pk}/compare/?a=1&b=1"))


def test_other_session_is_found_by_words_of_its_title(reader: Client) -> None:
    one, other, third = saved({}), saved({}), saved({})
    Session.objects.filter(pk=other.pk).update(title="Broken lamp of Kim")
    make_message(session=third, text="kim has a lamp")
    while indexer.index_next_batch_of_each_kind():
        pass
    address = f"/sessions/{one.pk}/compare/"
    found = reader.get(address, {"find": "kim lamp", "a": "1", "b": "1"})
    assert '<details class="menu other-session" open>' in found.content.decode()
    assert 'name="find" value="kim lamp"' in found.content.decode()
    assert f"?with={other.pk}&amp;a=1" in found.content.decode()
    assert f"?with={third.pk}" not in found.content.decode()
    assert "Version 1" in visible_text(found)
    part = reader.get(address, {"find": "kim lamp"}, headers={"HX-Request": "true", "HX-Target": "session-choices"})
    assert visible_text(part).startswith("Broken lamp of Kim")
    nothing = reader.get(address, {"find": "no such words"})
    assert "No other session has these words in its title, id or agent." in visible_text(nothing)


def test_complete_id_of_another_session_leads_to_its_comparison(reader: Client) -> None:
    one, other = saved({}), saved({})
    address = f"/sessions/{one.pk}/compare/"
    found = reader.get(address, {"a": "1", "find": f" {other.session_id} "})
    assert found.headers["Location"] == f"{address}?with={other.pk}&a=1"
    typing = {"HX-Request": "true", "HX-Target": "session-choices"}
    assert reader.get(address, {"find": other.session_id}, headers=typing).status_code == 200
    foreign = make_session(workspace=make_workspace(slug="elsewhere"))
    missing = reader.get(address, {"a": "1", "b": "1", "find": foreign.session_id})
    assert "No other session has these words" in visible_text(missing)


def test_choice_of_versions_names_both_sessions(reader: Client) -> None:
    one, other = saved({}), saved({})
    html = reader.get(f"/sessions/{one.pk}/compare/?with={other.pk}&a=1&b=1").content.decode()
    for word, session in (("From", one), ("to", other)):  # one item of the label, without a gap before the comma
        assert f"<span>{word} <bdi>{session.session_id}</bdi>, version</span>" in html


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
