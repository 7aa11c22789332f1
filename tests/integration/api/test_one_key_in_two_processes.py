"""One idempotency key that two server processes get at the same time: one of them writes."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction

from checkpoints import SyncCheckpointer
from checkpoints.db import clock
from checkpoints.models import LateResult, Session, ToolCall
from harness_site.accounts import api_tokens
from harness_site.accounts.models import ApiToken, TokenRole
from harness_site.api import client_checkpointer_cache, idempotent_writes
from harness_site.api.models import ApiWrite
from tests.support.api_client import ApiClient, make_token

pytestmark = pytest.mark.django_db(transaction=True)


class TwoProcesses:
    """Two threads that know no more of each other than two server processes do.

    The first one has served an agent that opened a session and issued a call; the second one has read that run.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._create, self._clients = client_checkpointer_cache.get_or_create_checkpointer, threading.local()
        monkeypatch.setattr(client_checkpointer_cache, "get_or_create_checkpointer", self._get_client_of_thread)
        monkeypatch.setattr(idempotent_writes, "refuse_concurrent_requests_with_key", lambda *_: nullcontext())
        self._secret = make_token(TokenRole.AGENT)
        ApiToken.objects.update(last_used_at=clock.now())
        self._threads = [ThreadPoolExecutor(1) for _ in range(2)]
        self._fence = self._threads[0].submit(self._open_session).result()
        self._threads[1].submit(self.send, "POST", "calls", "again", call_id="c1", tool="pay", args={}).result()

    def close(self) -> None:
        for thread in self._threads:
            thread.submit(lambda: connection.close()).result()
            thread.shutdown()

    def _get_client_of_thread(self, token: ApiToken, client: str) -> Any:
        if not hasattr(self._clients, "found"):
            client_checkpointer_cache.clear_client_cache()
            self._clients.found = self._create(token, client)
        return self._clients.found

    def _open_session(self) -> int:
        opened = ApiClient(self._secret, client="c").post("/sessions", {"session_id": "s"}).json()
        self._fence = int(opened["run"]["fence"])
        self.send("POST", "versions", "first", messages=[{"role": "user"}], expected_version=0)
        self.send("POST", "calls", "call", call_id="c1", tool="pay", args={})
        return self._fence

    def send(self, method: str, path: str, key: str, **body: Any) -> Any:
        client = ApiClient(self._secret, client="c")
        fields = {"fence": self._fence, **body}
        text = json.dumps({name: value for name, value in fields.items() if value is not None})
        return client.send(method, f"/sessions/s/{path}", text, {"Idempotency-Key": key})

    def resume(self, executing: list[int]) -> Any:
        body = {"session_id": "s", "mode": "resume", "fence": self._fence, "executing": executing}
        return ApiClient(self._secret, client="c").post("/sessions", body)

    def take_over(self) -> Any:
        body = {"session_id": "s", "mode": "resume", "hold": True, "takeover": "the process is gone"}
        answer = ApiClient(self._secret, client="c").post("/sessions", body)
        self._fence = int(answer.json()["run"]["fence"])
        return answer

    def wait_at_gate(self) -> Any:
        return ApiClient(self._secret, client="c").get(f"/sessions/s/gate?fence={self._fence}")

    def send_from_first_process(self, send: Callable[[], Any]) -> Any:
        return self._threads[0].submit(send).result()

    def send_from_second_process(self, send: Callable[[], Any]) -> Any:
        return self._threads[1].submit(send).result()

    def send_together(self, *requests: Callable[[], Any]) -> list[Any]:
        """Send one request to each process while the session is locked; on PostgreSQL what writes waits for it."""
        with transaction.atomic():
            Session.objects.select_for_update().get()
            answers = [thread.submit(request) for thread, request in zip(self._threads, requests, strict=True)]
            while connection.vendor == "postgresql":
                if _count_waiting_statements() + sum(answer.done() for answer in answers) == len(answers):
                    break
        return [answer.result() for answer in answers]


def _count_waiting_statements() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")  # a transaction reads the activity once
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        return int(cursor.fetchone()[0])


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Iterator[TwoProcesses]:
    started = TwoProcesses(monkeypatch)
    yield started
    started.close()


def test_save(processes: TwoProcesses) -> None:
    def save(text: str) -> Callable[[], Any]:
        messages = [{"role": "assistant", "content": text}]
        return lambda: processes.send("POST", "versions", "k", messages=messages, expected_version=1)

    answers = processes.send_together(save("a"), save("a"))
    assert (201, {"version": 2}) in [(answer.status_code, answer.json()) for answer in answers]
    assert {answer.status_code for answer in answers} <= {201, 409}  # the first attempt may lose to the repetition
    assert [version["version"] for version in SyncCheckpointer().list_checkpoints("s")] == [2, 1]
    assert ApiWrite.objects.filter(key="k").count() == 1


def test_save_with_another_body(processes: TwoProcesses) -> None:
    def save(text: str) -> Callable[[], Any]:
        messages = [{"role": "assistant", "content": text}]
        return lambda: processes.send("POST", "versions", "k", messages=messages, expected_version=1)

    answers = processes.send_together(save("a"), save("b"))
    assert sorted(answer.status_code for answer in answers) == [201, 422]
    assert [version["version"] for version in SyncCheckpointer().list_checkpoints("s")] == [2, 1]


def test_intent(processes: TwoProcesses) -> None:
    def issue() -> Any:
        return processes.send("POST", "calls", "k", call_id="c2", tool="pay", args={"n": 2})

    answers = processes.send_together(issue, issue)
    assert {(answer.status_code, answer.json()["state"]) for answer in answers} <= {(201, "run"), (202, "running")}
    assert len({answer.json()["number"] for answer in answers if answer.status_code == 201}) == 1
    assert ToolCall.objects.filter(call_id="c2").count() == 1
    assert ApiWrite.objects.get(key="k").call == ToolCall.objects.get(call_id="c2").pk


def test_call_that_another_process_has_issued_is_interrupted_when_the_agent_does_not_execute_it(
    processes: TwoProcesses,
) -> None:
    def ask_again(key: str) -> Any:
        return processes.send("POST", "calls", key, call_id="c2", tool="pay", args={"n": 2})

    issued = processes.send_from_first_process(partial(ask_again, "k"))
    assert (issued.status_code, issued.json()["state"]) == (201, "run")
    answer = processes.send_from_second_process(partial(ask_again, "other key"))
    assert (answer.status_code, answer.json()["state"]) == (202, "running")
    assert ToolCall.objects.get(call_id="c2").status == "issued"
    processes.send_from_second_process(lambda: processes.resume(executing=[]))
    assert ToolCall.objects.get(call_id="c2").status == "interrupted"


def test_intents_of_other_calls(processes: TwoProcesses) -> None:
    def issue(call_id: str) -> Callable[[], Any]:
        return lambda: processes.send("POST", "calls", "k", call_id=call_id, tool="pay", args={"n": call_id})

    answers = processes.send_together(issue("c2"), issue("c3"))
    assert sorted(answer.status_code for answer in answers) == [201, 422]
    assert ToolCall.objects.filter(call_id__in=["c2", "c3"]).count() == 1


def test_outcome(processes: TwoProcesses) -> None:
    def settle() -> Any:
        body = {"status": "completed", "result": "paid", "step": 1, "attempt": 1}
        return processes.send("PATCH", "calls/c1", "k", **body)

    answers = processes.send_together(settle, settle)
    assert (200, {"status": "completed"}) in [(answer.status_code, answer.json()) for answer in answers]
    assert {answer.status_code for answer in answers} <= {200, 409}
    assert ToolCall.objects.get().status == "completed"


def test_outcomes_that_differ(processes: TwoProcesses) -> None:
    def settle(result: str) -> Callable[[], Any]:
        body = {"status": "completed", "result": result, "step": 1, "attempt": 1}
        return lambda: processes.send("PATCH", "calls/c1", "k", **body)

    answers = processes.send_together(settle("a"), settle("b"))
    assert sorted(answer.status_code for answer in answers) == [200, 422]
    assert not LateResult.objects.exists()


def test_first_attempt_that_its_repetition_overtakes_gets_the_same_answer(
    processes: TwoProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first attempt has noted its key, and another process is asked again before it writes."""
    messages = [{"role": "assistant", "content": "a"}]
    outcome = {"status": "completed", "result": "paid", "step": 1, "attempt": 1}
    requests: list[tuple[str, str, dict[str, Any]]] = [
        ("POST", "versions", {"messages": messages, "expected_version": 1}),
        ("PATCH", "calls/c1", outcome),
        ("DELETE", "versions/1", {}),
        ("POST", "versions", {"messages": messages, "expected_version": 2}),
        ("POST", "prune", {"keep_last": 1, "fence": None}),
        ("POST", "finish", {"status": "completed", "result": 1}),
    ]
    monkeypatch.setattr(
        api_tokens, "is_recent_use_recorded", lambda *_: False
    )  # so a write notes its key before it is done
    serve_once = idempotent_writes.serve_write_once
    for number, (method, path, body) in enumerate(requests):
        send = partial(processes.send, method, path, f"overtaken {number}", **body)
        faster: list[Any] = []

        def serve_overtaken(
            token: Any, write: Any, note: Any, serve: Any, send: Any = send, faster: list[Any] = faster
        ) -> Any:
            def serve_late(repeated: Any) -> Any:
                if not faster:
                    faster.append(None)
                    faster[0] = processes.send_from_second_process(send)
                return serve(repeated)

            return serve_once(token, write, note, serve_late)

        monkeypatch.setattr(idempotent_writes, "serve_write_once", serve_overtaken)
        first = processes.send_from_first_process(send)
        answers = [(answer.status_code, answer.json()) for answer in (first, faster[0])]
        assert answers[0] == answers[1]
        assert answers[0][0] < 300
    assert [version["version"] for version in SyncCheckpointer().list_checkpoints("s")] == [3]


def test_run_that_another_process_let_through_the_gate_continues_in_both(processes: TwoProcesses) -> None:
    def open_gate() -> Any:
        call = ToolCall.objects.get(call_id="c1")
        SyncCheckpointer().confirm_landed("s", "c1", "paid", actor="alice", reason="seen", revision=call.revision)
        return processes.wait_at_gate()

    held = processes.send_from_first_process(processes.take_over)
    let_through = processes.send_from_second_process(open_gate)
    answer = processes.send_from_first_process(
        partial(processes.send, "POST", "calls", "k", call_id="c2", tool="pay", args={"n": 2})
    )
    assert (held.status_code, let_through.status_code) == (202, 200)
    assert (answer.status_code, answer.json()["state"]) == (201, "run")


def test_call_in_a_step_that_another_process_began_runs_under_the_same_id(processes: TwoProcesses) -> None:
    def issue(key: str) -> Any:
        return processes.send("POST", "calls", key, call_id="c2", tool="pay", args={"n": 2}, idempotency="call")

    def settle_and_save() -> Any:
        processes.send("PATCH", "calls/c2", "settle", status="completed", result="paid")
        return processes.send("POST", "versions", "k", messages=[{"role": "assistant"}], expected_version=1)

    first = processes.send_from_first_process(partial(issue, "a"))
    processes.send_from_second_process(settle_and_save)
    second = processes.send_from_first_process(partial(issue, "b"))
    assert [(answer.status_code, answer.json()["step"]) for answer in (first, second)] == [(201, 1), (201, 2)]


def test_new_call_belongs_to_the_step_that_another_process_began(processes: TwoProcesses) -> None:
    def issue(call_id: str) -> Any:
        return processes.send("POST", "calls", call_id, call_id=call_id, tool="ring", args={"n": call_id})

    def save() -> Any:
        return processes.send("POST", "versions", "k", messages=[{"role": "assistant"}], expected_version=1)

    first = processes.send_from_first_process(partial(issue, "c2"))
    processes.send_from_second_process(save)
    second = processes.send_from_first_process(partial(issue, "c3"))
    assert [(answer.status_code, answer.json()["step"]) for answer in (first, second)] == [(201, 1), (201, 2)]


def test_calls_of_one_kind_through_two_processes_are_operations_of_their_own(processes: TwoProcesses) -> None:
    def issue(call_id: str) -> Any:
        fields = {"call_id": call_id, "tool": "ring", "args": {}, "idempotency": "unanswered"}
        return processes.send("POST", "calls", call_id, **fields)

    answers = [
        processes.send_from_second_process(partial(issue, "r1")),
        processes.send_from_first_process(partial(issue, "r2")),
        processes.send_from_second_process(partial(issue, "r3")),
    ]
    assert [(answer.status_code, answer.json()["state"]) for answer in answers] == [(201, "run")] * 3
    assert ToolCall.objects.filter(tool="ring").count() == 3


def test_open_call_keeps_its_key_through_another_process_and_in_a_later_step(processes: TwoProcesses) -> None:
    def issue(key: str) -> Any:
        fields = {"call_id": "m1", "tool": "mail", "args": {}, "requires_approval": True}
        return processes.send("POST", "calls", key, **fields, idempotency="call", continues_open_calls=True)

    def save() -> Any:
        return processes.send("POST", "versions", "k", messages=[{"role": "assistant"}], expected_version=1)

    first = processes.send_from_first_process(partial(issue, "asked"))
    processes.send_from_second_process(save)
    waiting = processes.send_from_second_process(partial(issue, "asked again"))
    assert (first.status_code, waiting.status_code) == (409, 409)
    call = ToolCall.objects.get(tool="mail")
    ToolCall.objects.filter(pk=call.pk).update(status="approved", revision=call.revision + 1)
    run = processes.send_from_first_process(partial(issue, "approved"))
    assert (run.status_code, run.json()["step"]) == (201, call.step)
    assert ToolCall.objects.filter(tool="mail").count() == 1


def test_resume_by_the_owner_at_another_process_keeps_the_run() -> None:
    client = ApiClient(make_token(TokenRole.AGENT), client="c")
    fence = client.post("/sessions", {"session_id": "s"}).json()["run"]["fence"]
    client_checkpointer_cache.clear_client_cache()
    answer = client.post("/sessions", {"session_id": "s", "mode": "resume", "fence": fence})
    assert (answer.status_code, answer.json()["run"]["fence"]) == (201, fence)
