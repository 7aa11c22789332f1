"""Notes of idempotency keys and their answers: how many statements they take, and when the answers are stored."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from checkpoints import SyncCheckpointer
from checkpoints.db import clock
from checkpoints.models import Checkpoint, LateResult, ToolCall
from checkpoints.store import look_up_and_lock_rows
from checkpoints.versions import save_version
from harness_site.accounts import api_tokens
from harness_site.accounts.models import ApiToken, TokenRole
from harness_site.api import client_checkpointer_cache, idempotent_writes, in_process_rate_limit, json_request_bodies
from harness_site.api.models import ApiWrite
from harness_site.core import deferred_writes
from tests.support.api_client import API, ApiClient, make_token
from tests.support.sealed_mode import set_sealed_environment

pytestmark = pytest.mark.django_db(transaction=True)

LONG_AGO = "2026-01-01T00:00:00Z"

#: What a request reads to find what its first attempt has written.
CALL_READER, VERSION_READER = (
    (look_up_and_lock_rows, "get_latest_call_attempt"),
    (save_version, "find_version_of_repeated_save"),
)

#: Statements of one save and of the two requests of a dispatch. PostgreSQL checks the token, notes the key and writes
#: in one; SQLite does so in one transaction, between a `BEGIN` and a `COMMIT`.
STATEMENTS = {
    "postgresql": {"save": 1, "issue": 1, "outcome": 1},
    "sqlite": {"save": 7, "issue": 7, "outcome": 6},
}


class Agent:
    """Agent with an open session, whose token this process has read before, and whose use is recorded."""

    def __init__(self) -> None:
        self.secret = make_token(TokenRole.AGENT)
        ApiToken.objects.update(last_used_at=clock.now())
        self.client = ApiClient(self.secret, client="a process")
        self.fence = self.client.post("/sessions", {"session_id": "s"}).json()["run"]["fence"]
        self.save(0)
        deferred_writes.flush_all()

    def send(self, method: str, path: str, key: str, **body: Any) -> Any:
        body = {"fence": self.fence, **body}
        return self.client.send(method, f"/sessions/s/{path}", json.dumps(body), {"Idempotency-Key": key})

    def save(self, version: int) -> Any:
        return self.send("POST", "versions", f"save {version}", messages=[{"role": "user"}], expected_version=version)

    def issue(self, call_id: str) -> Any:
        return self.send("POST", "calls", f"issue {call_id}", call_id=call_id, tool="pay", args={"call": call_id})

    def settle(self, call_id: str, step: int = 1) -> Any:
        body = {"status": "completed", "result": "paid", "step": step, "attempt": 1}
        return self.send("PATCH", f"calls/{call_id}", f"settle {call_id}", **body)


def test_statements_of_a_save_and_of_a_dispatch() -> None:
    agent, counts = Agent(), {}
    agent.issue("c1"), agent.settle("c1")
    requests: dict[str, Callable[[], Any]] = {
        "save": lambda: agent.save(1),
        "issue": lambda: agent.issue("c2"),
        "outcome": lambda: agent.settle("c2", step=2),
    }
    for name, send in requests.items():
        with CaptureQueriesContext(connection) as queries:
            response = send()
        assert response.status_code < 300, response.content
        counts[name] = len(queries)
        assert connection.vendor == "postgresql" or queries[0]["sql"] == "BEGIN IMMEDIATE"
        assert [query["sql"] for query in queries].count("COMMIT") <= 1
    assert counts == STATEMENTS[connection.vendor]


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"revoked_at": LONG_AGO}, 401),
        ({"expires_at": LONG_AGO}, 401),
        ({"digest": "of another token"}, 401),
        ({"role": TokenRole.AUDITOR}, 403),
    ],
)
def test_changed_token_is_noticed_by_the_next_write(change: dict[str, Any], status: int) -> None:
    agent = Agent()
    agent.issue("c1")
    ApiToken.objects.update(**change)
    answers = [agent.save(1), agent.issue("c2"), agent.settle("c1")]
    assert [answer.status_code for answer in answers] == [status] * 3
    assert ["RateLimit" in answer for answer in answers] == [status == 403] * 3
    assert [version["version"] for version in SyncCheckpointer().list_checkpoints("s")] == [1]
    assert [(call.call_id, call.status) for call in ToolCall.objects.all()] == [("c1", "issued")]


def test_index_that_begins_with_the_token_is_that_of_its_keys() -> None:
    """A plan that is made before the table has statistics takes any other one, and reads all writes of the token."""
    with connection.cursor() as cursor:
        constraints = connection.introspection.get_constraints(cursor, ApiWrite._meta.db_table)
    indexes = [item["columns"] for item in constraints.values() if item["index"] or item["unique"]]
    assert [columns for columns in indexes if columns[0] == "token_id"] == [["token_id", "key"]]


def test_note_is_not_younger_than_what_its_write_has_written() -> None:
    agent = Agent()
    agent.save(1)
    assert ApiWrite.objects.get(key="save 1").created_at <= Checkpoint.objects.get(version=2).created_at


@pytest.mark.parametrize("is_token_known", [True, False])
def test_repetition_finds_its_write_though_the_clock_of_the_process_is_behind_the_database(
    is_token_known: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with set_sealed_environment(tmp_path):  # times of sealed rows are those of the process
        agent = Agent()
        behind = clock.now() - timedelta(seconds=30)
        monkeypatch.setattr(clock, "now", lambda: behind)
        ApiToken.objects.update(last_used_at=None)  # so the write does not check the token itself
        agent.client.get("/sessions")
        if not is_token_known:
            monkeypatch.setattr(api_tokens, "_values_by_digest", {})
        first = agent.save(1)
        client_checkpointer_cache.clear_client_cache()
        deferred_writes.discard_all_waiting_values()
        second = agent.save(1)
    assert (first.status_code, second.status_code, second.json()) == (201, 201, first.json())
    assert Checkpoint.objects.count() == 2


def test_database_that_is_busy_is_asked_once() -> None:
    agent, asked = Agent(), []

    def fail(execute: Any, sql: str, *args: Any) -> Any:
        asked.append(sql)
        raise OperationalError("database is locked")

    with connection.execute_wrapper(fail):
        response = agent.save(1)
    assert (response.status_code, response.json()["type"], len(asked)) == (503, "StorageBusy", 1)
    assert agent.save(1).json() == {"version": 2}


def test_body_of_a_token_that_is_known_to_be_revoked_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent()
    ApiToken.objects.update(revoked_at=LONG_AGO)
    assert agent.save(1).status_code == 401
    monkeypatch.setattr(json_request_bodies, "read_decompressed_body", None)
    assert agent.save(1).status_code == 401


def test_note_of_an_intent_claims_the_call() -> None:
    agent = Agent()
    first = agent.issue("c1")
    assert ApiWrite.objects.get(key="issue c1").call == first.json()["number"]
    client_checkpointer_cache.clear_client_cache()
    again = agent.issue("c1")
    assert (again.status_code, again.json()["state"], again.json()["number"]) == (201, "run", first.json()["number"])
    other = agent.send("POST", "calls", "another key", call_id="c1", tool="pay", args={"call": "c1"})
    assert (other.status_code, other.json()["state"]) == (202, "running")


@pytest.mark.parametrize("options", [{"requires_approval": True}, {"idempotency": "unanswered"}])
def test_write_that_does_something_else_first_notes_its_key_before(
    options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    agent = Agent()
    body = {"call_id": "c1", "tool": "pay", "args": {}, **options}
    response = agent.send("POST", "calls", "issue c1", **body)
    assert response.status_code == (409 if "requires_approval" in options else 201)
    assert ApiWrite.objects.filter(key="issue c1").count() == 1
    assert ToolCall.objects.count() == 1
    for key in ("issue c1", "issue c1 again"):
        agent.send("POST", "calls", key, **body)
    assert caplog.text == "", "an agent that waits for a person asks again and again"


def test_key_that_another_process_noted_is_not_used_again() -> None:
    agent = Agent()
    ApiWrite.objects.create(token=ApiToken.objects.get(), key="save 1", digest="of another request")
    response = agent.save(1)
    assert (response.status_code, response.json()["type"]) == (422, "IdempotencyKeyReused")
    assert SyncCheckpointer().load_latest("s")["version"] == 1  # type: ignore[index]


def test_answer_is_repeated_before_it_is_stored() -> None:
    agent = Agent()
    first = agent.save(1)
    assert ApiWrite.objects.get(key="save 1").body == ""
    second = agent.save(1)
    assert (second.status_code, second.json()) == (201, first.json())
    assert second["Idempotency-Replayed"] == "true"
    deferred_writes.flush_all()
    deferred_writes.discard_all_waiting_values()
    assert ApiWrite.objects.get(key="save 1").body == '{"version":2}'
    third = agent.save(1)
    assert (third.json(), third["Idempotency-Replayed"]) == (first.json(), "true")
    other = agent.send("POST", "versions", "save 1", messages=[{"role": "tool"}], expected_version=1)
    assert (other.status_code, other.json()["type"]) == (422, "IdempotencyKeyReused")


def test_another_process_finds_the_write_before_its_answer_is_stored() -> None:
    agent = Agent()
    agent.issue("c1")
    requests: list[Callable[[], Any]] = [lambda: agent.save(1), lambda: agent.settle("c1")]
    for send in requests:
        first = send()
        client_checkpointer_cache.clear_client_cache()
        deferred_writes.discard_all_waiting_values()
        second = send()
        assert (first.status_code < 300, second.status_code) == (True, first.status_code)
        assert second.json() == first.json()
        assert "Idempotency-Replayed" not in second
    assert [version["version"] for version in SyncCheckpointer().list_checkpoints("s")] == [2, 1]
    assert ToolCall.objects.get().status == "completed"


@pytest.mark.parametrize(
    ("method", "path", "body", "reader"),
    [
        ("PATCH", "calls/c1", {"status": "completed", "result": "paid", "step": 1, "attempt": 1}, CALL_READER),
        ("POST", "versions", {"messages": [{"role": "user"}], "expected_version": 1}, VERSION_READER),
    ],
)
def test_repetition_finds_what_its_first_attempt_writes_meanwhile(
    method: str, path: str, body: dict[str, Any], reader: tuple[Any, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, read = Agent(), getattr(*reader)
    agent.issue("c1")
    content = json.dumps({"fence": agent.fence, **body}).encode()
    write = idempotent_writes.KeyedWrite(method, f"{API}/sessions/s/{path}", content, "k")
    ApiWrite.objects.create(token=ApiToken.objects.get(), key=write.key, digest=write.digest)

    def read_before_the_first_attempt_writes(*args: Any, **options: Any) -> Any:
        monkeypatch.setattr(*reader, read)
        found = read(*args, **options)
        assert agent.send(method, path, "in place of the first attempt", **body).status_code < 300
        return found

    monkeypatch.setattr(*reader, read_before_the_first_attempt_writes)
    response = agent.send(method, path, "k", **body)
    assert response.status_code < 300, response.content
    assert not LateResult.objects.exists()
    assert Checkpoint.objects.count() == (1 if path == "calls/c1" else 2)


def test_answer_that_a_repetition_cannot_build_again_is_stored_before_it_is_sent() -> None:
    agent = Agent()
    agent.send("POST", "versions", "whole", messages=[{"role": "tool"}], mode="replace")  # after no certain version
    agent.issue("c1")
    agent.send("PATCH", "calls/c1", "any attempt", status="completed", result="paid")
    agent.client.send("DELETE", "/sessions/s/versions/1", None, {"Idempotency-Key": "delete"})
    stored = ApiWrite.objects.filter(key__in=["whole", "any attempt", "delete"]).order_by("pk")
    assert [row.body for row in stored[:2]] == ['{"version":2}', '{"status":"completed"}']
    assert json.loads(stored[2].body)["versions"] == 1


def test_waiting_answers_are_stored_together() -> None:
    agent = Agent()
    for version in (1, 2, 3):
        agent.save(version)
    with CaptureQueriesContext(connection) as queries:
        deferred_writes.flush_all()
    assert len([query for query in queries if ApiWrite._meta.db_table in query["sql"]]) == 1
    bodies = ApiWrite.objects.filter(key__startswith="save").order_by("pk").values_list("status", "body")
    assert list(bodies) == [(201, f'{{"version":{version}}}') for version in (1, 2, 3, 4)]


def test_refused_requests_leave_no_note(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent()
    monkeypatch.setattr(in_process_rate_limit, "read_clock", lambda: 0.0)
    settings.API_REQUESTS_PER_MINUTE = 6
    in_process_rate_limit.clear_request_counts()
    statuses = [agent.save(version).status_code for version in (1, 2)]
    assert statuses == [201, 429]
    in_process_rate_limit.clear_request_counts()
    ApiToken.objects.update(revoked_at=LONG_AGO)
    assert agent.save(3).status_code == 401
    assert not ApiWrite.objects.filter(key__in=["save 2", "save 3"]).exists()
    in_process_rate_limit.clear_request_counts()


def test_request_is_refused_while_another_one_with_its_key_is_served() -> None:
    agent = Agent()
    with idempotent_writes.refuse_concurrent_requests_with_key(f"Bearer {agent.secret}", "save 1"):
        response = agent.save(1)
    assert (response.status_code, response.json()["type"]) == (409, "RequestInProgress")
    assert "RateLimit" in response
    assert agent.save(1).status_code == 201
