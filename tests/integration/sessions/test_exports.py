"""Exports of a session as records, page and session file, and of session lists."""

import csv
import json
import re
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from decimal import Decimal
from io import StringIO
from pathlib import Path
from typing import Any, cast

import pytest
from django.core.management import CommandError, call_command
from django.http import StreamingHttpResponse
from django.test import Client

from checkpoints import SyncCheckpointer
from checkpoints.db import clock
from checkpoints.enums import CallStatus, CostBasis, Role, RunStatus, SessionStatus
from checkpoints.formats import to_canonical_json
from checkpoints.models import AuditEvent, Segment, Session
from harness_site.accounts.models import MaskingSettings
from tests.integration.search.conftest import complete
from tests.support.client_login import record_reauthentication
from tests.support.factories import (
    THEN,
    make_call,
    make_checkpoint,
    make_decision,
    make_late_result,
    make_message,
    make_messages,
    make_run,
    make_session,
    make_user,
    make_workspace,
)
from tests.support.long_session import PIXEL, make_long_session
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db

Queries = Callable[[int], AbstractContextManager[object]]
SCRIPT = "<script>alert(1)</script>"


@pytest.fixture
def reader(client: Client) -> Client:
    client.force_login(make_user(role=Role.AUDITOR))
    return client


def body(response: Any) -> str:
    """Return the content of a streamed response."""
    pieces = cast(StreamingHttpResponse, response).streaming_content
    return b"".join(cast(Iterable[bytes], pieces)).decode()


def records(response: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in body(response).splitlines()]


def table(response: Any) -> list[dict[str, str]]:
    """Return the rows of a list, each of which is a record; the last one marks the list as complete."""
    rows = list(csv.DictReader(StringIO(body(response))))
    marks = [row.pop("export") for row in rows]
    assert marks == [*[""] * (len(rows) - 1), f"rows: {len(rows)}, complete"]
    return rows


def conversation() -> Session:
    """Create a session with two versions, the second edited, and a call with all fields."""
    session = make_session(session_id="order 17/ä", labels='["vip"]')
    make_run(session=session)
    make_messages(session=session, texts=["The lamp arrived broken.", "Sorry."])
    make_checkpoint(session=session, plan={"steps": ["look", "refund"]})
    root = session.head_segment
    session.head_segment = Segment.objects.create(session=session, parent=root, parent_length=1)
    session.save()
    ask = [{"kind": "tool_call", "id": "call_9", "name": "pay", "args": {"order": 17}}]
    make_message(session=session, role="assistant", blocks=ask)
    make_checkpoint(session=session)
    call = make_call(
        session=session, tool="pay", args={"order": 17}, step=2, status=CallStatus.COMPLETED, result="re_1"
    )
    make_decision(call=call, evidence=to_canonical_json({"link": "https://bank.example/1"}))
    make_late_result(call=call)
    return session


def test_records_contain_all_stored_data(reader: Client) -> None:
    session = conversation()
    response = reader.get(f"/sessions/{session.pk}/export/jsonl/")
    assert response.headers["Content-Disposition"] == 'attachment; filename="order-17-v2.jsonl"'
    told = records(response)
    assert " ".join(record["record"] for record in told) == (
        "session run segment message message segment message checkpoint checkpoint call decision late_result event end"
    )
    assert told[-1] == {"record": "end", "records": 13, "complete": True}
    assert told[0]["labels"] == ["vip"]
    assert told[4]["message"]["blocks"] == [{"kind": "text", "text": "Sorry."}]
    assert (told[5]["parent"], told[5]["parent_length"]) == (told[2]["segment"], 1)
    assert told[7]["plan"] == {"steps": ["look", "refund"]}
    assert (told[9]["args"], told[9]["result"]) == ({"order": 17}, "re_1")
    assert (told[10]["actor"], told[10]["evidence"]) == ("alice", {"link": "https://bank.example/1"})
    assert (told[12]["kind"], told[12]["details"]["form"]) == ("exported", "jsonl")


def test_records_of_a_fork_contain_inherited_messages(reader: Client) -> None:
    origin = make_session(session_id="origin")
    make_run(session=origin)
    make_messages(session=origin, texts=["taken", "left behind"])
    fork = make_session(session_id="fork", forked_from=origin, forked_version=1)
    fork.head_segment = Segment.objects.create(session=fork, parent=origin.head_segment, parent_length=1)
    fork.save()
    make_message(session=fork, text="its own")
    make_checkpoint(session=fork)
    told = records(reader.get(f"/sessions/{fork.pk}/export/jsonl/"))
    texts = [record["message"]["blocks"][0]["text"] for record in told if record["record"] == "message"]
    assert texts == ["taken", "its own"]
    assert told[0]["forked_from"] == {"id": "origin", "version": 1}


def test_page_is_complete_and_self_contained(reader: Client) -> None:
    session = conversation()
    make_message(session=session, text="word " * 4000 + "THE END")
    make_message(session=session, blocks=[{"kind": "image", "url": PIXEL}])
    make_message(session=session, blocks=[{"kind": "image", "url": "https://elsewhere.example/pixel.png"}])
    make_checkpoint(session=session)
    response = reader.get(f"/sessions/{session.pk}/export/html/")
    assert response.headers["Content-Disposition"] == 'attachment; filename="order-17-v3.html"'
    html = body(response)
    assert "THE END" in html
    assert re.search(r'<p class="facts"><span class="chip [a-z]+">', html)
    assert f'<img src="{PIXEL}"' in html
    assert "It happened" in html
    assert "Seen in the bank&#x27;s export." in html
    assert "<li>Nothing" not in html
    assert re.findall(r'(?:href|src)="(?!#|data:image/png|https://(?:bank|elsewhere)\.example)[^"]*"', html) == []
    assert re.findall(r"<(?:script|link|iframe|object|form|button)|hx-|@import|url\((?!\"#hatch)", html) == []
    assert "Times are in the time zone UTC (UTC+00:00 at the time of the export)" in html
    assert html.endswith("</html>\n")


@pytest.mark.parametrize(
    ("result", "shown"), [('{"refunded":true}', "refunded"), ('"It is *paid*."', "It is <em>paid</em>.")]
)
def test_page_has_the_result_of_the_session(reader: Client, result: str, shown: str) -> None:
    session = conversation()
    Session.objects.filter(pk=session.pk).update(status="completed", result=result)
    html = body(reader.get(f"/sessions/{session.pk}/export/html/"))
    assert shown in html[html.index("<h2>Result</h2>") :]


def test_offline_page_uses_language_and_time_zone_of_the_reader(reader: Client) -> None:
    session = make_session()
    make_message(session=session, text="Hello")
    make_checkpoint(session=session)
    reader.post("/accounts/display/", {"time_zone": "Asia/Kolkata", "language": "de", "theme": ""})
    html = body(reader.get(f"/sessions/{session.pk}/export/html/"))
    assert '<html lang="de">' in html
    assert "Asia/Kolkata" in html
    assert "UTC+05:30" in html
    assert ">2025-03-04 16:12:07</time>" in html
    assert "Dieser Export ist vollständig." in html  # what is made after the first piece


@pytest.mark.unsealed("its messages have no chain of the library")
def test_page_contains_all_messages_of_a_long_session(reader: Client) -> None:
    pk = make_long_session(430)
    html = body(reader.get(f"/sessions/{pk}/export/html/"))
    shown = [int(position) for position in re.findall(r'id="m-(\d+)"', html)]
    assert sorted(shown) == list(range(430))
    assert len(set(shown)) == len(shown)


@pytest.mark.unsealed("its messages have no chain of the library")
def test_print_page_has_all_messages_of_a_long_session_as_a_page_of_the_site(reader: Client) -> None:
    pk = make_long_session(430)
    response = reader.get(f"/sessions/{pk}/export/print/")
    html = body(response)
    shown = [int(position) for position in re.findall(r'id="m-(\d+)"', html)]
    assert sorted(shown) == list(range(430))
    assert len(set(shown)) == len(shown)
    assert html.endswith("<!-- export: complete --></html>\n")
    assert "Content-Disposition" not in response.headers
    nonce = re.findall(r'<script src="[^"]+print_page[^"]*" type="module" nonce="([^"]+)"', html)
    assert f"'nonce-{nonce[0]}'" in response.headers["Content-Security-Policy"]
    assert re.findall(r"<style|\sstyle=|data:image|<form|hx-", html) == []
    assert re.search(rf'<img src="/sessions/{pk}/messages/7/images/\d/\?v=\d+" alt="picture 7">', html)


def test_print_page_folds_nothing(reader: Client) -> None:
    session = make_session()
    make_run(session=session)
    make_message(session=session, role="assistant", blocks=[{"kind": "reasoning", "text": "I look at the order."}])
    make_message(session=session, text="word " * 4000 + "THE END")
    numbers = {"kind": "hologram", "numbers": [[number, "x" * 900] for number in range(60)]}
    make_message(session=session, role="assistant", blocks=[numbers])
    make_checkpoint(session=session)
    folded, printed = (body(reader.get(f"/sessions/{session.pk}/export/{form}/")) for form in ("html", "print"))
    assert "THE END" in printed
    assert len(re.findall(r"<details[^>]* open", printed)) == folded.count("<details") > 60
    assert printed.count("<details") == folded.count("<details")


def test_print_page_says_what_the_session_is_with_exact_times(reader: Client) -> None:
    session = conversation()
    make_message(session=session, text="said today", created_at=clock.now())
    make_checkpoint(session=session)
    Session.objects.filter(pk=session.pk).update(status="completed", result='"It is *paid*."', agent="refund-desk")
    reader.post("/accounts/display/", {"time_zone": "Asia/Kolkata", "language": "en", "theme": "dark"})
    response = reader.get(f"/sessions/{session.pk}/export/print/")
    html = body(response)
    text = re.sub(r"<[^>]+>", "", html)
    address = f"http://testserver/sessions/{session.pk}/"
    assert f'<html lang="en" data-theme="dark" data-printed-as="Session {session.session_id} · {address}">' in html
    assert f"<dt>Address</dt><dd>{address}</dd>" in html
    for words in (
        "order 17/ä",
        "refund-desk",
        "Completed",
        "The session ended, and no run continues it.",
        "It is paid.",
    ):
        assert words in text.split("Transcript")[0]
    assert "by alice · Secrets are masked." in text
    times = re.findall(r"<time [^>]+>([^<]+)</time>", html)
    exact = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{3})? \+05:30")
    assert len(times) > 5
    assert [time for time in times if not exact.fullmatch(time)] == []


def test_print_page_of_an_older_version_has_its_messages_and_its_plan(reader: Client) -> None:
    session = conversation()
    html = body(reader.get(f"/sessions/{session.pk}/export/print/?v=1"))
    text = re.sub(r"<[^>]+>", "", html)
    assert re.findall(r'id="m-(\d+)"', html) == ["0", "1"]
    assert "Sorry." in text
    assert "Plan of version 1" in text
    assert "The page has every message of version 1 and its plan; the newest version is 2." in text
    assert f'href="/sessions/{session.pk}/?v=1"' in html
    assert f' · http://testserver/sessions/{session.pk}/?v=1">' in html
    assert json.loads(AuditEvent.objects.get(kind="exported").details)["version"] == 1
    assert reader.get(f"/sessions/{session.pk}/export/print/?v=9").status_code == 404
    assert AuditEvent.objects.filter(kind="exported").count() == 1


def test_session_names_its_print_page_in_the_shown_version(reader: Client) -> None:
    session = conversation()
    address = f"/sessions/{session.pk}/export/print/"
    newest, older = (reader.get(f"/sessions/{session.pk}/{query}").content.decode() for query in ("", "?v=1"))
    assert newest.count(f'href="{address}"') == older.count(f'href="{address}?v=1"') == 2
    assert "Print or save as PDF" in newest


@pytest.mark.parametrize(("role", "is_refused"), [(Role.APPROVER, True), (Role.ADMIN, False)])
def test_export_menu_says_whether_the_reader_may_export_secrets(client: Client, role: Role, is_refused: bool) -> None:
    session = conversation()
    client.force_login(make_user(name="dora", role=role))
    response = client.get(f"/sessions/{session.pk}/")
    page = visible_text(response)
    reason = "It contains secrets. Your role does not allow you to see secrets. Admins can export this file."
    assert (reason in page) is is_refused
    assert ("Secrets are masked unless you show them." in page) is not is_refused
    assert (f'href="/sessions/{session.pk}/export/file/"' in response.content.decode()) is not is_refused


def test_messages_beside_huge_ones_are_exported(reader: Client) -> None:
    session = make_session()
    make_run(session=session)
    make_messages(session=session, texts=[letter * 5_000_000 for letter in "abc"] + ["d"])
    make_checkpoint(session=session)
    html = body(reader.get(f"/sessions/{session.pk}/export/html/"))
    assert re.findall(r'id="m-(\d+)"', html) == ["0", "1", "2", "3"]
    assert all(letter * 5_000_000 in html for letter in "abc")
    assert "a" * 100_000 in reader.get(f"/sessions/{session.pk}/messages/0/").content.decode()


def test_hostile_text_is_escaped_in_every_field(reader: Client) -> None:
    session = make_session(session_id=SCRIPT, title=SCRIPT, agent=SCRIPT, labels=to_canonical_json([SCRIPT]))
    run = make_run(session=session, host=SCRIPT)
    make_message(session=session, role=SCRIPT, text=f"{SCRIPT} </style> [x](javascript:alert(1)) \x1b[31m\ud800")
    make_message(session=session, blocks=[{"kind": SCRIPT, "x": [SCRIPT]}])
    make_checkpoint(session=session, plan={"steps": [SCRIPT], SCRIPT: SCRIPT})
    call = make_call(session=session, run=run, tool=SCRIPT, call_id=SCRIPT, args={SCRIPT: SCRIPT}, sentence=SCRIPT)
    make_decision(call=call, reason=SCRIPT, evidence=to_canonical_json({"link": "javascript:alert(1)", "text": SCRIPT}))
    make_late_result(call=call, result=SCRIPT)
    printed = body(reader.get(f"/sessions/{session.pk}/export/print/"))
    assert re.findall(r"<script(?! src=)|href=\"javascript:|<style", printed) == []
    html = body(reader.get(f"/sessions/{session.pk}/export/html/"))
    assert "<script" not in html
    assert 'href="javascript:' not in html
    assert html.count("</style>") == 1
    told = records(reader.get(f"/sessions/{session.pk}/export/jsonl/"))
    assert next(record for record in told if record["record"] == "message")["message"]["role"] == SCRIPT


@pytest.mark.parametrize("form", ["jsonl", "html", "print"])
def test_secrets_are_masked_by_workspace_rules(reader: Client, form: str) -> None:
    MaskingSettings.objects.create(workspace=make_workspace(), words="violet-*")
    session = make_session(title="violet-1")
    make_run(session=session)
    make_message(session=session, text="password: hunter22 and violet-2")
    make_checkpoint(session=session)
    make_call(session=session, args={"api_key": "k-123", "note": "violet-3"})
    sent = body(reader.get(f"/sessions/{session.pk}/export/{form}/"))
    assert "‹masked›" in sent
    assert re.findall(r"hunter22|k-123|violet-\d", sent) == []


def test_session_file_requires_permission_for_secrets(client: Client, tmp_path: Path) -> None:
    client.force_login(make_user(name="dora", role=Role.ADMIN))
    cp = SyncCheckpointer()
    cp.start_session("s", "Hello")
    cp.save_checkpoint("s", [{"role": "user", "content": "password: hunter22"}], None, 0)
    cp.finish_session("s", "completed")
    pk = Session.objects.get().pk
    refused = client.get(f"/sessions/{pk}/export/file/")
    assert refused.status_code == 403
    assert "Show secrets and export" in refused.content.decode()
    address = f"/sessions/{pk}/export/file/"
    assert f'name="next" value="{address}?ready=1"' in refused.content.decode()
    shown = record_reauthentication(client).post("/accounts/secrets/", {"next": f"{address}?ready=1"}, follow=True)
    assert shown.redirect_chain == [(f"{address}?ready=1", 302)]
    assert "The session file is ready" in shown.content.decode()
    response = client.get(address)
    path = tmp_path / "s.session"
    path.write_bytes(body(response).encode())
    assert response.headers["Content-Length"] == str(path.stat().st_size)
    cp.delete_session("s")
    assert cp.import_session(path).version == 1
    assert cp.load_latest("s")["transcript"][0]["content"] == "password: hunter22"  # type: ignore[index]


def test_auditor_is_told_who_may_export_the_file(reader: Client) -> None:
    make_user(name="dora", role=Role.ADMIN)
    refused = reader.get(f"/sessions/{conversation().pk}/export/file/")
    assert refused.status_code == 403
    assert "Your role does not allow you to see secrets. These members can: <b>dora</b>." in refused.content.decode()


@pytest.mark.parametrize(("form", "more"), [("jsonl", {}), ("html", {}), ("print", {"version": 2})])
def test_export_is_recorded(reader: Client, form: str, more: dict[str, int]) -> None:
    session = conversation()
    reader.get(f"/sessions/{session.pk}/export/{form}/")
    event = AuditEvent.objects.get(kind="exported")
    assert (event.actor, event.session_id) == ("alice", session.pk)
    assert json.loads(event.details) == {"what": "session", "form": form, "address": "127.0.0.1", **more}


def test_unknown_export_format_is_not_found(reader: Client) -> None:
    assert reader.get(f"/sessions/{conversation().pk}/export/pdf/").status_code == 404
    assert not AuditEvent.objects.filter(kind="exported").exists()


@pytest.mark.unsealed("its number of statements is that without seals")
@pytest.mark.parametrize("messages", [1, 3])
def test_query_count_is_independent_of_the_messages(
    reader: Client, messages: int, django_assert_num_queries: Queries
) -> None:
    session = make_session()
    make_run(session=session)
    for number in range(messages):
        ask = [{"kind": "tool_call", "id": str(number), "name": "pay", "args": {}}]
        make_message(session=session, role="assistant", blocks=ask)
        make_checkpoint(session=session)
        make_decision(call=make_call(session=session, call_id=str(number), tool="pay", args={}, step=number + 1))
    with django_assert_num_queries(23):
        body(reader.get(f"/sessions/{session.pk}/export/jsonl/"))
    for form in ("html", "print"):
        with django_assert_num_queries(19):
            body(reader.get(f"/sessions/{session.pk}/export/{form}/"))


def test_filtered_list_is_exported_as_csv(reader: Client) -> None:
    make_session(session_id="b", title="=1+1", agent="other")
    make_session(session_id="a", title='A "lamp", broken')
    make_session(session_id="c", workspace=make_workspace(slug="elsewhere"))
    complete()
    response = reader.get("/sessions/export/?agent=refund-desk&q=lamp")
    rows = table(response)
    assert [(row["session"], row["title"], row["status"]) for row in rows] == [("a", 'A "lamp", broken', "idle")]
    everything = table(reader.get("/sessions/export/"))
    assert [(row["session"], row["title"]) for row in everything] == [("a", 'A "lamp", broken'), ("b", "'=1+1")]
    told = [json.loads(event.details) for event in AuditEvent.objects.filter(kind="exported").order_by("pk")]
    assert [each["filters"] for each in told] == ["agent=refund-desk&q=*", ""]


def test_unknown_cost_tokens_and_times_are_empty_cells(reader: Client) -> None:
    make_session(session_id="known", budget_spent_usd="1.5", cost_basis=CostBasis.STATED, total_tokens=7)
    make_session(session_id="unknown", cost_basis=CostBasis.UNKNOWN, has_times=False)
    rows = {row["session"]: row for row in table(reader.get("/sessions/export/"))}
    assert rows["known"]["cost_usd"].startswith("1.5")
    assert rows["known"]["tokens"] == "7"
    assert rows["known"]["started"]
    assert rows["known"]["updated"]
    assert {rows["unknown"][name] for name in ("cost_usd", "tokens", "started", "updated", "ended")} == {""}


def test_unknown_cost_and_tokens_are_null_in_records(reader: Client) -> None:
    known = make_session(cost_basis=CostBasis.STATED, budget_spent_usd="0.5", total_tokens=7)
    unknown = make_session(session_id="unknown", cost_basis=CostBasis.UNKNOWN)
    amounts = {}
    for session in (known, unknown):
        make_messages(session=session, texts=["a"])
        make_checkpoint(session=session, budget_spent_usd="0.5" if session == known else "0")
        told = records(reader.get(f"/sessions/{session.pk}/export/jsonl/"))
        version = next(record for record in told if record["record"] == "checkpoint")
        amounts[session.session_id] = (told[0]["cost_usd"], told[0]["tokens"], version["cost_usd"])
    assert amounts[unknown.session_id] == (None, None, None)
    assert (Decimal(amounts[known.session_id][0]), *amounts[known.session_id][1:]) == (Decimal("0.5"), 7, 0.5)


def test_labels_projects_branches_and_models_are_cells_and_only_finished_sessions_have_an_end(reader: Client) -> None:
    session = make_session(session_id="idle", labels='["vip","late"]')
    make_run(session=session, status=RunStatus.RELEASED, owner=False, ended_at=THEN)
    for model in ("small-1", "large-1"):
        source = {"context": {"model": model, "git_branch": "main", "cwd": "/home/dora/shop"}}
        make_message(session=session, body={"role": "assistant", "content": "Done.", "source": source})
    finished = make_session(session_id="finished", status=SessionStatus.COMPLETED)
    make_run(session=finished, status=RunStatus.RELEASED, owner=False, ended_at=THEN)
    complete()
    rows = {row["session"]: row for row in table(reader.get("/sessions/export/"))}
    cells = ("labels", "project", "branch", "model", "ended")
    assert [rows["idle"][name] for name in cells] == ["vip; late", "shop", "main", "large-1; small-1", ""]
    assert [rows["finished"][name] for name in cells[:4]] == ["", "", "", ""]
    assert rows["finished"]["ended"]


def test_list_offers_its_filtered_export(reader: Client) -> None:
    session = make_session(agent="refund-desk")
    html = reader.get(f"/sessions/?agent=refund-desk&rows={session.pk}").content.decode()
    assert 'href="/sessions/export/?agent=refund-desk" download' in html
    assert "/sessions/export/" not in reader.get("/sessions/?agent=billing").content.decode()


def run(*words: str, **options: Any) -> str:
    said = StringIO()
    call_command("export_session", *words, stdout=said, stderr=StringIO(), **options)
    return said.getvalue().strip()


@pytest.mark.unsealed("its messages have no chain of the library")
@pytest.mark.parametrize("form", ["jsonl", "html"])
def test_command_writes_the_same_export(tmp_path: Path, form: str) -> None:
    session = conversation()
    make_message(session=session, text="password: hunter22")
    path = tmp_path / "out"
    told = run(session.session_id, str(path), format=form)
    assert told == f"Version 2, {path.stat().st_size:,} bytes: {path}"
    assert "The lamp arrived broken." in path.read_text()
    assert "hunter22" not in path.read_text()
    run(session.session_id, str(path), format=form, unmasked=True)
    assert "hunter22" in path.read_text()
    events = AuditEvent.objects.filter(kind="exported").order_by("pk")
    assert [json.loads(event.details)["masked"] for event in events] == [True, False]


def test_command_reports_unknown_sessions(tmp_path: Path) -> None:
    make_workspace()
    with pytest.raises(CommandError, match="There is no session 'x'"):
        run("x", str(tmp_path / "out"), format="html")
    with pytest.raises(CommandError, match="There is no workspace 'y'"):
        run("x", str(tmp_path / "out"), format="html", workspace="y")
    assert list(tmp_path.iterdir()) == []


def test_export_announces_its_size(reader: Client) -> None:
    session = make_session(title="one")
    for _ in range(3):
        make_message(session=session)
    make_checkpoint(session=session)
    make_call(session=session)
    totals = {
        form: reader.get(f"/sessions/{session.pk}/export/{form}/").headers["Harness-Total"]
        for form in ("html", "jsonl")
    }
    assert totals == {"html": "message 3", "jsonl": "record 5"}
    make_session(title="two")
    assert reader.get("/sessions/export/?q=").headers["Harness-Total"] == "record 2"
