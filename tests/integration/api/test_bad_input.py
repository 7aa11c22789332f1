"""Every route of the HTTP API with every kind of bad input."""

from __future__ import annotations

import dataclasses
import gzip
import json
import re
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
import zstandard
from django.db import OperationalError
from django.test import Client

from checkpoints import SyncCheckpointer, exceptions
from checkpoints.enums import AuditKind
from checkpoints.models import AuditEvent, Run, Session
from harness_site.accounts import api_tokens
from harness_site.accounts.models import TokenRole
from harness_site.api import client_checkpointer_cache, in_process_rate_limit, request_schemas, response_schemas
from harness_site.api.models import ApiWrite
from harness_site.api.openapi_document import build_openapi_document
from tests.support.api_client import API, BY, ApiClient, make_token
from tests.support.api_table import FENCE, INPUTS, STATUSES, TABLE, Route
from tests.support.exhaustive_mode import choose_each
from tests.support.factories import make_workspace

pytestmark = pytest.mark.django_db(transaction=True)

#: Parameter of a path: its converter is no part of the OpenAPI document.
_PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>")
#: Detail of a problem: a sentence that begins with a word, a quotation or the name of an argument, or what is wrong
#: with each field.
_SENTENCE = re.compile(r"(?:[A-Z']|[\w.]+: |\w+ is ).*[^.]\.", re.DOTALL)
DEEP = '{"x":' + "[" * 300 + "]" * 300 + "}"


def test_table_has_every_route() -> None:
    document = build_openapi_document(f"{API}/")
    routes = {
        (method.upper(), path.removeprefix(f"{API}/"))
        for path, operations in document["paths"].items()
        for method in operations
    }
    assert routes == {(row.method, _PARAMETER.sub(r"{\1}", row.route)) for row in TABLE}
    assert all(len(row.problems) == len(INPUTS) for row in TABLE)


def test_request_and_response_schemas_have_distinct_names() -> None:
    """The document has one schema for each name."""
    bodies, known = (
        {name for name, kind in vars(module).items() if isinstance(kind, type)}
        for module in (request_schemas, response_schemas)
    )
    assert {
        name for name in bodies & known if getattr(request_schemas, name) is not getattr(response_schemas, name)
    } == set()


class Situation:
    """Session with a version and a call, and a token of each kind."""

    def __init__(self) -> None:
        workspace = make_workspace()
        self.agent = make_token(TokenRole.AGENT, name="agent")
        self.approver = make_token(TokenRole.APPROVER, name="approver")
        self.auditor = make_token(TokenRole.AUDITOR, name="auditor")
        identity_provider = make_workspace(slug="elsewhere")
        self.foreign_agent = make_token(TokenRole.AGENT, name="x", workspace=identity_provider)
        self.foreign_approver = make_token(TokenRole.APPROVER, name="y", workspace=identity_provider)
        token, self.revoked = api_tokens.create_token_with_secret(
            workspace, name="revoked", role=TokenRole.AGENT, lifetime=None, by=BY
        )
        api_tokens.revoke_token(token, by=BY)
        client = ApiClient(self.agent)
        run = client.post("/sessions", {"session_id": "s"}).json()["run"]
        self.fence, self.run = run["fence"], run["run_id"]
        client.post(
            "/sessions/s/versions", {"fence": self.fence, "messages": [{"role": "user"}], "expected_version": 0}
        )
        issued = client.post("/sessions/s/calls", {"fence": self.fence, "call_id": "c1", "tool": "pay", "args": {}})
        assert issued.status_code == 201
        assert client.post("/sessions/s/workflows/w", {"fence": self.fence}).json() == {"workflow_id": "w", "steps": []}

    def path(self, row: Route) -> str:
        return row.path.format(fence=self.fence, run=self.run)

    def text(self, row: Route, **changes: Any) -> str:
        body = {**(row.body or {}), **changes}
        if body.get("fence") == FENCE:
            body["fence"] = self.fence
        return json.dumps(body)

    def send(self, row: Route, bad: str, settings: Any) -> Any:
        token = self.wrong_token(row, bad)
        path, headers = self.path(row), {}
        if bad == "damaged gzip":
            headers["Content-Encoding"] = "gzip"
        elif bad == "too large":
            settings.SERVER_LIMITS = dataclasses.replace(settings.SERVER_LIMITS, body_bytes=5)
        elif bad == "reused key":
            headers["Idempotency-Key"] = f"{row.method} {row.path}"
            ApiClient(token).send(row.method, path, self.text(row, colour="red"), headers)
        elif bad == "bad parameter":
            path = path.partition(f"?{row.parameter.partition('=')[0]}=")[0]
            path += ("&" if "?" in path else "?") + row.parameter
        elif bad == "unknown parameter":
            path += ("&" if "?" in path else "?") + "colour=red"
        return ApiClient(token).send(row.method, path, None if row.body is None else self.wrong_text(row, bad), headers)

    def wrong_token(self, row: Route, bad: str) -> str:
        is_decision = row.path.endswith("/decision")
        tokens = {
            "no token": "",
            "revoked token": self.revoked,
            "wrong role": self.agent if is_decision else self.auditor,
            "foreign workspace": self.foreign_approver if is_decision else self.foreign_agent,
        }
        return tokens.get(bad, self.approver if is_decision else self.agent)

    def wrong_text(self, row: Route, bad: str) -> str:
        texts = {
            "lost fence": self.text(row, fence=self.fence + 7),
            "unknown field": self.text(row, colour="red"),
            "wrong type": self.text(row, **{row.parameter: 5 if row.parameter == "state" else {"a": [1]}}),
            "NaN": self.text(row)[:-1] + ', "colour": NaN}',
            "too deep": DEEP,
            "no object": "[1]",
        }
        return texts.get(bad, self.text(row))


def test_every_route_refuses_bad_input(settings: Any) -> None:
    limits = settings.SERVER_LIMITS
    situation = Situation()
    before = list(Session.objects.values_list("pk", "revision", "latest_version"))
    wrong, details = [], set()
    cases = [(row, *case) for row in TABLE for case in zip(INPUTS, row.problems, strict=True)]
    # Of neighbouring routes, an ordinary run tries other inputs.
    for row, bad, expected in choose_each(2, [case for case in cases if case[2] != "-"]):
        response = situation.send(row, bad, settings)
        settings.SERVER_LIMITS = limits
        answer = response.json() if response["Content-Type"] == "application/problem+json" else {}
        found = (response.status_code, answer.get("type"))
        if found != (STATUSES[expected], expected):
            wrong.append((row.method, row.path, bad, found, expected))
        details.add(str(answer.get("detail")))
    assert wrong == []
    assert [detail for detail in details if not _SENTENCE.fullmatch(detail)] == []
    assert before == list(Session.objects.values_list("pk", "revision", "latest_version"))


def test_text_that_no_database_stores_is_refused_everywhere() -> None:
    """PostgreSQL stores no null character. A process without a name is served as well as one with a name."""
    situation = Situation()
    failed = []
    for row in TABLE:
        texts = [name for name, value in (row.body or {}).items() if isinstance(value, str)]
        for name in texts:
            text = situation.text(row, **{name: f"{(row.body or {})[name]}\0"})
            response = ApiClient(situation.wrong_token(row, "")).send(row.method, situation.path(row), text, {})
            if response.status_code >= 500:
                failed.append((row.method, row.path, name, response.status_code))
    assert failed == []


@pytest.mark.parametrize(
    ("text", "why"),
    [("[1]", "it is a JSON list, not an object"), ('{"a":NaN}', "NaN"), (DEEP, "deep"), ("{", "char 1")],
    ids=["list", "NaN", "deep", "cut"],
)
def test_problem_says_why_a_body_cannot_be_read(text: str, why: str) -> None:
    problem = ApiClient(make_token(TokenRole.AGENT)).send("POST", "/sessions", text, {}).json()
    assert problem["type"] == "MalformedRequest"
    assert why in problem["detail"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "/sessions/s/heartbeat"),
        ("TRACE", "/sessions?limit=7"),
        ("PATCH", "/search?q=x"),
        ("PUT", "/sessions/s/versions?nonsense=1"),
    ],
)
def test_method_that_a_route_does_not_have_is_refused_first(method: str, path: str) -> None:
    """Neither a parameter that another method has nor a key that another request had is named instead."""
    client = ApiClient(make_token(TokenRole.AGENT))
    assert client.post("/sessions", {"session_id": "s"}, **{"Idempotency-Key": "used"}).status_code == 201
    response = client.send(method, path, "{}", {"Idempotency-Key": "used"})
    assert (response.status_code, response.json()["type"]) == (405, "RouteNotFound")
    assert "GET" in response["Allow"] or "POST" in response["Allow"]


@pytest.mark.parametrize("time", ["0.5", "1767225600", "yesterday"])
def test_time_that_is_no_date_is_refused(time: str) -> None:
    response = ApiClient(make_token(TokenRole.AGENT)).get(f"/sessions?updated_before={time}")
    assert (response.status_code, response.json()["type"]) == (422, "InvalidFields")


#: Writes in the order in which one session can have them; each list ends the run of the session.
_WRITES = (
    ("calls", "calls/c1", "heartbeat", "versions", "phases", "prune", "fork", "pause"),
    ("calls/c1", "finish", ""),
    ("workflows/w", "workflows/w/steps", "release"),
)


@pytest.mark.parametrize("paths", _WRITES)
def test_every_route_answers_as_documented(paths: tuple[str, ...]) -> None:
    """`ApiClient` compares each answer with the document."""
    situation = Situation()
    reads = [row for row in TABLE if row.method == "GET" and "/gate" not in row.path]
    writes = [
        row for path in paths for row in TABLE if row.path == f"/sessions/s/{path}".rstrip("/") and row not in reads
    ]
    for row in [*reads, *writes]:
        response = situation.send(row, "", None)
        assert response.status_code < 300, (row.path, response.content)
        if row in reads:
            assert ApiClient(situation.auditor).get(situation.path(row)).status_code == 200
    assert situation.send(next(row for row in TABLE if row.path == "/peer-calls/p0/response"), "", None).json() == {
        "answer": "Early",
        "call_id": "p0",
    }


def test_write_with_a_lost_fence_is_refused() -> None:
    situation = Situation()
    other = ApiClient(situation.agent, client="another process")
    assert other.post("/sessions", {"session_id": "s"}).json()["type"] == "SessionBusy"
    taken = other.post("/sessions", {"session_id": "s", "takeover": "it hangs", "hold": True})
    assert (taken.status_code, len(taken.json()["undecided"])) == (202, 1)
    late = ApiClient(situation.agent).send(
        "PATCH", "/sessions/s/calls/c1", json.dumps({"fence": situation.fence, "status": "completed", "result": "x"})
    )
    assert (late.status_code, late.json()["type"]) == (409, "LateResultRefused")
    stale = ApiClient(situation.agent).post(
        "/sessions/s/versions", {"fence": situation.fence, "messages": [], "expected_version": 1}
    )
    assert (stale.status_code, stale.json()["type"]) == (409, "OwnershipLost")


def test_run_continues_in_another_server_process() -> None:
    situation = Situation()
    client_checkpointer_cache.clear_client_cache()
    client = ApiClient(situation.agent)
    again = client.post("/sessions/s/calls", {"fence": situation.fence, "call_id": "c1", "tool": "pay", "args": {}})
    assert (again.status_code, again.json()["state"]) == (202, "running")
    body = {"fence": situation.fence, "messages": [{"role": "assistant"}], "expected_version": 1}
    assert client.post("/sessions/s/versions", body).json() == {"version": 2}


@pytest.mark.parametrize("answered", [True, False])
def test_repeated_writes_are_done_once(answered: bool) -> None:
    """A repeated request finds what the first attempt wrote, also in another process."""
    situation = Situation()
    client, fence = ApiClient(situation.agent), situation.fence
    requests: list[tuple[str, str, dict[str, Any]]] = [
        ("POST", "/sessions/s/versions", {"fence": fence, "messages": [{"role": "tool"}], "expected_version": 1}),
        ("POST", "/sessions/s/calls", {"fence": fence, "call_id": "c2", "tool": "pay", "args": {"n": 2}}),
        ("PATCH", "/sessions/s/calls/c2", {"fence": fence, "status": "completed", "result": "paid"}),
        ("PATCH", "/sessions/s/calls/c1", {"fence": fence, "status": "failed", "result": "no"}),
        ("POST", "/sessions/s/workflows/w/steps", {"fence": fence, "step_id": "hold", "tool": "hold", "args": {}}),
        ("PATCH", "/sessions/s/calls/w~1hold", {"fence": fence, "status": "completed", "result": {"held": 1}}),
        ("POST", "/sessions/s/workflows/w/steps", {"fence": fence, "step_id": "hold", "tool": "hold", "args": {}}),
        ("POST", "/sessions/s/fork", {"new_session_id": "f"}),
        ("POST", "/sessions/s/finish", {"fence": fence, "status": "completed", "result": 1}),
    ]
    for number, (method, path, body) in enumerate(requests):
        headers = {"Idempotency-Key": f"write {number}"}
        first = client.send(method, path, json.dumps(body), headers)
        assert first.status_code < 300, first.content
        if not answered:
            client_checkpointer_cache.clear_client_cache()
            ApiWrite.objects.update(status=None, body="", call=None)
        second = client.send(method, path, json.dumps(body), headers)
        assert second.status_code == first.status_code, second.content
        first_answer, second_answer = first.json(), second.json()
        first_answer.pop("args_json", None), second_answer.pop("args_json", None)
        assert second_answer == first_answer
    checkpointer = SyncCheckpointer()
    assert [version["version"] for version in checkpointer.list_checkpoints("s")] == [2, 1]
    assert Session.objects.count() == 2


def send_unanswered(
    client: ApiClient, path: str, body: dict[str, Any] | None, key: str, *, method: str = "POST"
) -> Any:
    """Send a write twice with a key; the first answer is lost together with the process of the server."""
    text, headers = None if body is None else json.dumps(body), {"Idempotency-Key": key}
    first = client.send(method, path, text, headers)
    client_checkpointer_cache.clear_client_cache()
    ApiWrite.objects.filter(key=key).update(status=None, body="", call=None)
    second = client.send(method, path, text, headers)
    assert second.status_code == first.status_code, second.content
    assert second.json() == first.json()
    return second.json()


def test_interrupted_call_has_an_error_and_no_result() -> None:
    situation = Situation()
    client, path = ApiClient(situation.agent), "/sessions/s/calls/c1"
    body = {"fence": situation.fence, "status": "interrupted", "reason": "ambiguous_error", "error_type": "Reset\0"}
    refused = client.send("PATCH", path, json.dumps({**body, "result": "no answer"}))
    assert (refused.status_code, refused.json()["type"]) == (422, "InvalidInput")
    body["error_message"] = "no answer\0 with token=abcdef123456"
    assert send_unanswered(client, path, body, "outcome", method="PATCH") == {"status": "interrupted"}
    call = ApiClient(situation.auditor).get(path).json()
    assert (call["error_type"], call["result_text"]) == ("Reset", None)
    assert (call["error_message"], call["undecided"]) == ("no answer with token=‹masked›", True)
    assert AuditEvent.objects.filter(kind=AuditKind.CALL_INTERRUPTED).count() == 1


@pytest.mark.parametrize("name", ["", "a process"])
def test_repeated_openings_and_appends_without_a_run_are_done_once(name: str) -> None:
    client = ApiClient(make_token(TokenRole.AGENT), client=name)
    opened = send_unanswered(client, "/sessions", {"session_id": "s"}, "open")
    assert (opened["run"]["number"], Run.objects.count()) == (1, 1)
    client.post("/sessions/s/release", {"fence": opened["run"]["fence"]})
    message = {"messages": [{"role": "user"}], "expected_version": 0}
    assert send_unanswered(client, "/sessions/s/versions", message, "append") == {"version": 1}
    assert client.post("/sessions/s/versions", message).json()["type"] == "VersionConflict"


def test_one_of_several_requests_for_a_call_may_run_it() -> None:
    """Each client repeats its request with its own key, also after the server was killed before it answered."""
    situation = Situation()
    client, path = ApiClient(situation.agent), "/sessions/s/calls"
    body = {"fence": situation.fence, "call_id": "c2", "tool": "pay", "args": {"n": 2}}

    def issue(key: str) -> str:
        answer: str = client.post(path, body, **({"Idempotency-Key": key} if key else {})).json()["state"]
        return answer

    assert [issue(key) for key in ("a", "b", "b", "", "a", "b")] == [
        "run",
        "running",
        "running",
        "running",
        "run",
        "running",
    ]
    client_checkpointer_cache.clear_client_cache()
    ApiWrite.objects.update(status=None, call=None)
    assert [issue(key) for key in ("b", "a", "b", "")] == ["run", "running", "run", "running"]


def test_peer_operations_with_every_response_lost() -> None:
    client = ApiClient(make_token(TokenRole.AGENT), client="a process")
    fence = client.post("/sessions", {"session_id": "s"}).json()["run"]["fence"]
    calls = [{"id": "p1", "peer": "stock", "request": {"ask": 1}, "sent": False}]
    pause = {"fence": fence, "state": {"step": 1}, "joins": [{"id": "j", "calls": calls}]}
    paused = {"session_id": "s", "number": 1, "complete": [], "ready": False}
    assert send_unanswered(client, "/sessions/s/pause", pause, "pause") == paused
    claimed = client.post("/notices/claim", {"session_id": "s"}).json()
    assert [(notice["call_id"], notice["attempt"]) for notice in claimed["notices"]] == [("p1", 1)]
    delivery = {"kind": "request", "attempt": 1, "delivered": True}
    assert send_unanswered(client, "/peer-calls/p1/notice", delivery, "told") == {"delivered": True}
    assert client.post("/peer-calls/sweep", {}).json() == {"expired": [], "complete": []}
    answer = send_unanswered(client, "/peer-calls/p1/response", {"result": "yes"}, "answer")
    assert (answer["answer"], answer["join_complete"]) == ("Accepted", True)
    assert client.post("/peer-calls/p1/response", {"result": "yes"}).json()["answer"] == "Duplicate"
    taken = client.post("/sessions/s/take", {}).json()
    assert (taken["run"]["number"], taken["task"]["state"]) == (2, {"step": 1})
    assert taken["task"]["joins"][0]["results"][0]["result"] == "yes"
    client.post("/sessions/s/release", {"fence": taken["run"]["fence"]})
    cancelled = send_unanswered(client, "/sessions/s/cancel", {"reason": "It is late."}, "cancel")
    assert (cancelled, client.get("/sessions/s").json()["status"]) == ({"status": "cancelled"}, "cancelled")


def test_removals_with_every_response_lost() -> None:
    client = ApiClient(make_token(TokenRole.AGENT), client="a process")
    fence = client.post("/sessions", {"session_id": "s"}).json()["run"]["fence"]
    for version in range(4):
        body = {"fence": fence, "messages": [{"role": "user"}], "expected_version": version}
        assert client.post("/sessions/s/versions", body).status_code == 201
    client.post("/sessions/s/release", {"fence": fence})

    def remove(path: str) -> Any:
        return send_unanswered(client, path, None, path, method="DELETE")

    assert send_unanswered(client, "/sessions/s/prune", {"keep_last": 3}, "prune")["versions"] == 1
    assert remove("/sessions/s/versions/2")["versions"] == 1
    assert client.send("DELETE", "/sessions/s/versions/2", None, {}).json()["type"] == "VersionNotFound"
    assert remove("/sessions/s") == {"versions": 2, "messages": 4, "dry_run": False}
    assert client.send("DELETE", "/sessions/s", None, {}).json()["type"] == "SessionNotFound"


def test_step_of_a_workflow_runs_once_and_keeps_its_identity() -> None:
    situation = Situation()
    client, path = ApiClient(situation.agent), "/sessions/s/workflows/w/steps"
    step = {"fence": situation.fence, "step_id": "hold", "tool": "hold", "args": {"n": 1}}
    issued = client.post(path, step)
    assert (issued.status_code, issued.json()["call_id"]) == (201, "w/hold")
    assert client.post(path, step).json()["state"] == "running"
    changed = client.post(path, {**step, "args": {"n": 2}}).json()
    assert (changed["type"], changed["facts"]["changed"]) == ("StepIdentityChanged", ["arguments"])
    body = {"fence": situation.fence, "status": "completed", "result": {"held": 1}}
    assert client.send("PATCH", "/sessions/s/calls/w~1hold", json.dumps(body)).status_code == 200
    assert client.post(path, step).json() == {"state": "answered", "value": {"held": 1}}
    (stored,) = ApiClient(situation.auditor).get("/sessions/s/workflows/w").json()["steps"]
    assert (stored["step_id"], stored["status"], stored["result"]) == ("hold", "completed", {"held": 1})
    for missing in (client.get("/sessions/s/workflows/other"), client.post("/sessions/s/workflows/other/steps", step)):
        assert (missing.status_code, missing.json()["type"]) == (404, "WorkflowNotFound")


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
def test_compressed_bodies_are_read_within_the_limit(compress: Callable[[bytes], bytes], settings: Any) -> None:
    token = make_token(TokenRole.AGENT)
    headers = {
        "Authorization": f"Bearer {token}",
        "Content-Encoding": "gzip" if compress is gzip.compress else "zstd",
    }

    def send(body: bytes) -> Any:
        return Client().post(f"{API}/sessions", body, content_type="application/json", headers=headers)

    body = json.dumps({"session_id": "s", "title": "x" * 200}).encode()
    assert send(compress(body)).status_code == 201
    damaged, cut = send(b"no such data"), send(compress(body)[:-20])
    assert [answer.json()["type"] for answer in (damaged, cut)] == ["MalformedRequest", "MalformedRequest"]
    settings.SERVER_LIMITS = dataclasses.replace(settings.SERVER_LIMITS, body_bytes=100)
    assert (send(compress(body)).status_code, len(compress(body)) < 100) == (413, True)


@pytest.mark.parametrize(
    "error",
    [
        exceptions.StorageBusy("A lock.", may_have_happened=False),
        exceptions.ConnectionFailed("No server.", may_have_happened=False),
    ],
)
def test_answer_says_when_to_ask_again_while_the_database_gives_no_answer(error: exceptions.StorageError) -> None:
    with mock.patch.object(SyncCheckpointer, "list_sessions", side_effect=error):
        response = ApiClient(make_token(TokenRole.AGENT)).get("/sessions")
    assert (response.status_code, response["Retry-After"]) == (503, "1")
    assert response.json()["type"] == type(error).__name__


@pytest.mark.parametrize(("method", "may_have_happened"), [("GET", False), ("POST", True)])
@pytest.mark.parametrize("is_typed", [True, False])
def test_only_a_write_may_have_happened_when_the_database_is_lost(
    method: str, may_have_happened: bool, is_typed: bool
) -> None:
    lost = exceptions.StorageUnavailable("Lost.", may_have_happened=True) if is_typed else OperationalError("Lost.")
    client = ApiClient(make_token(TokenRole.AGENT))
    with mock.patch.object(client_checkpointer_cache, "get_or_create_checkpointer", side_effect=lost):
        problem = client.send(method, "/sessions", '{"session_id": "s"}', {}).json()
    assert (problem["type"], problem["may_have_happened"]) == ("StorageUnavailable", may_have_happened)
    assert ("Nothing was written." in problem["detail"]) is not may_have_happened


@pytest.mark.parametrize("path", ["/", "/openapi.json"])
def test_pages_of_the_reference_refuse_other_methods_with_a_problem(path: str) -> None:
    client = Client(enforce_csrf_checks=True)
    assert client.get(f"/api/v1{path}").status_code == client.head(f"/api/v1{path}").status_code == 200
    response = client.post(f"/api/v1{path}", {"title": "A session."})
    assert (response.status_code, response.json()["type"]) == (405, "RouteNotFound")
    assert response["Allow"] == "GET, HEAD"


def test_requests_of_a_token_are_limited(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_process_rate_limit, "read_clock", lambda: 0.0)
    token = make_token(TokenRole.AGENT)
    settings.API_REQUESTS_PER_MINUTE = 12
    in_process_rate_limit.clear_request_counts()
    answers = [ApiClient(token).get("/pending") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert {answer["RateLimit-Policy"] for answer in answers[:2]} == {'"token";q=2;w=10'}
    assert [answer["RateLimit"] for answer in answers[:2]] == ['"token";r=1;t=5', '"token";r=0;t=10']
    limited = ApiClient(token).get("/pending")
    assert (limited.json()["type"], int(limited["Retry-After"])) == ("RateLimited", 5)
    in_process_rate_limit.clear_request_counts()
