"""The HTTP client: lost responses, tokens, leases, waiting, and event streams."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

from checkpoints import Checkpointer, SyncCheckpointer, ToolRegistry, exceptions
from checkpoints.db import clock
from checkpoints.enums import CallStatus
from checkpoints.models import Run, Session, ToolCall
from checkpoints.peers import Join, Notice, PeerCall, Swept, Told
from checkpoints.remote.http_client_backend import RemoteBackend
from checkpoints.remote.http_connections import AnswerLost, Response
from checkpoints.seals.decision_keys import create_key_pair
from harness_site.accounts.models import TokenRole
from harness_site.api import client_checkpointer_cache
from harness_site.api.models import ApiWrite
from tests.support.api_client import make_token
from tests.support.factories import make_workspace
from tests.support.http_server import HttpServer
from tests.support.processes import PATIENCE, wait_until


def lose_answers(cp: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Drop the first response to each write, after the server has performed it."""
    connections, lost = cp.checkpointer_state.transport._connections, []
    send = connections.send_once_and_read_response

    def request(method: str, target: str, headers: dict[str, str], body: bytes, **times: float) -> Response:
        response: Response = send(method, target, headers, body, **times)
        key = headers.get("Idempotency-Key")
        if key and key not in lost:
            lost.append(key)
            client_checkpointer_cache.clear_client_cache()
            raise AnswerLost("lost", is_sent=True)
        return response

    monkeypatch.setattr(connections, "send_once_and_read_response", request)
    return lost


def test_writes_with_lost_responses_are_performed_once(cp: SyncCheckpointer, monkeypatch: pytest.MonkeyPatch) -> None:
    lost, effects = lose_answers(cp, monkeypatch), []
    registry = ToolRegistry()

    @registry.tool(side_effects={"mutate"})
    def pay(order: int) -> str:
        effects.append(order)
        return "paid"

    with cp.session("s", "Pay.", registry=registry) as session:
        assert session.append([{"role": "user"}]) == 1
        assert session.save([{"role": "user"}, {"role": "assistant"}]) == 2
        assert session.dispatch("pay", {"order": 17}, "c1").content == "paid"
        assert session.dispatch("pay", {"order": 17}, "c2").replayed
        assert cp.fork_session("s", "f") == 1
        session.finish("completed", {"paid": 17})
    assert (len(lost) >= 7, effects) == (True, [17])
    assert [version["version"] for version in cp.list_checkpoints("s")] == [2, 1]
    assert list(ToolCall.objects.filter(session__session_id="s").values_list("status", flat=True)) == ["completed"]
    assert Session.objects.get(session_id="s").status == "completed"


def test_repeated_write_finds_the_abandoned_one(cp: SyncCheckpointer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("checkpoints.remote.transport.PAUSES", ())
    cp.start_session("s")
    lose_answers(cp, monkeypatch)
    for repeat in (lambda: cp.append_checkpoint("s", [{"role": "user"}], expected_version=0), lambda: issue(cp)):
        with pytest.raises(exceptions.ServerUnavailable) as error:
            repeat()
        assert error.value.may_have_happened
        assert repeat() in {1, "c1"}


def issue(cp: SyncCheckpointer) -> str:
    cp.record_tool_call_issued("s", "c1", "pay", {"order": 17}, "key")
    return "c1"


@pytest.mark.parametrize("kind", [exceptions.StorageUnavailable, exceptions.StorageBusy])
def test_client_waits_as_the_server_asks_while_the_database_gives_no_answer(
    cp: SyncCheckpointer, monkeypatch: pytest.MonkeyPatch, kind: type[exceptions.StorageError]
) -> None:
    failures = [kind("It restarts.", may_have_happened=False) for _ in range(2)]
    pauses: list[float] = []
    monkeypatch.setattr("checkpoints.remote.transport.time", SimpleNamespace(sleep=pauses.append))

    def list_sessions(*_: Any, **__: Any) -> list[Any]:
        if failures:
            raise failures.pop()
        return []

    monkeypatch.setattr(SyncCheckpointer, "list_sessions", list_sessions)
    assert cast(RemoteBackend, cp.backend)._send_read_request("/sessions")["sessions"] == []
    assert failures == []
    assert pauses == [1.0, 1.0]


def test_unreachable_server_is_reported_after_a_few_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("checkpoints.remote.transport.PAUSES", (0.0,))
    cp = SyncCheckpointer("http://127.0.0.1:9", token="x")
    with pytest.raises(exceptions.ServerUnavailable) as error:
        cp.start_session("s")
    assert error.value.may_have_happened is False
    cp.close()


@pytest.mark.parametrize(
    ("url", "options", "kind"),
    [
        ("https://harness.example", {}, exceptions.InvalidInput),
        ("https://", {"token": "x"}, exceptions.InvalidInput),
        ("https://harness.example", {"token": "x", "migrate": True}, exceptions.InvalidInput),
        ("agent.db", {"token": "x"}, exceptions.InvalidInput),
    ],
)
def test_wrong_arguments_are_refused(url: str, options: dict[str, Any], kind: type[Exception]) -> None:
    with pytest.raises(kind):
        SyncCheckpointer(url, **options)


def test_token_of_another_role_or_workspace(server: HttpServer, cp: SyncCheckpointer) -> None:
    cp.start_session("s")
    foreign = make_token(TokenRole.AGENT, name="x", workspace=make_workspace(slug="elsewhere"))
    auditor = make_token(TokenRole.AUDITOR, name="a")
    for secret, kind in (("harness_no", exceptions.TokenInvalid), (auditor, exceptions.RoleInsufficient)):
        with SyncCheckpointer(server.address, token=secret) as other, pytest.raises(kind):
            other.start_session("s")
    with SyncCheckpointer(server.address, token=foreign) as other, pytest.raises(exceptions.SessionNotFound):
        other.load("s", 1)


def test_run_without_heartbeats_is_lost(open_checkpointer: Any) -> None:
    first, second = open_checkpointer(), open_checkpointer()
    first.start_session("s")
    with pytest.raises(exceptions.SessionBusy) as busy:
        second.start_session("s")
    assert busy.value.lease_ends > busy.value.last_seen
    first.checkpointer_state.renew_leases_and_forget_lost_sessions()
    Run.objects.update(lease_expires_at=clock.now() - timedelta(seconds=1))
    second.start_session("s")
    with pytest.raises(exceptions.OwnershipLost):
        first.save_checkpoint("s", [])


def test_heartbeat_without_an_answer_is_due_again(open_checkpointer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    cp = open_checkpointer()
    cp.start_session("s")
    keys = ApiWrite.objects.count()
    with monkeypatch.context() as patch:
        patch.setattr(cp.checkpointer_state.transport._connections, "send_once_and_read_response", refuse)
        assert not cp.checkpointer_state.renew_leases_and_forget_lost_sessions()
    lease_ends = Run.objects.get().lease_expires_at
    assert cp.checkpointer_state.renew_leases_and_forget_lost_sessions()
    assert Run.objects.get().lease_expires_at > lease_ends
    assert ApiWrite.objects.count() == keys  # repeating a heartbeat takes no key
    Run.objects.update(lease_expires_at=clock.now() - timedelta(seconds=1))
    open_checkpointer().start_session("s")
    assert cp.checkpointer_state.renew_leases_and_forget_lost_sessions()  # nothing is left to renew
    assert cp.checkpointer_state.list_owned_sessions() == []


@pytest.mark.parametrize("end", ["release", "finish", "take over"])
def test_heartbeat_that_a_run_overtakes_by_its_end_reports_no_loss(
    end: str, open_checkpointer: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cp = open_checkpointer()
    cp.start_session("s")
    ends: dict[str, Callable[[], object]] = {
        "release": lambda: cp.release_session("s"),
        "finish": lambda: cp.finish_session("s", "completed"),
        "take over": lambda: open_checkpointer().start_session("s", takeover="It hangs."),
    }
    renew, send = cp.checkpointer_state.transport.renew_lease, cp.checkpointer_state.transport.send_write_request

    def renew_late(path: str, fence: int) -> None:
        ends[end]()
        renew(path, fence)

    def beat_before_answer(*request: Any, **options: Any) -> Any:
        answer = send(*request, **options)
        monkeypatch.setattr(cp.checkpointer_state.transport, "send_write_request", send)
        assert cp.checkpointer_state.renew_leases_and_forget_lost_sessions()
        return answer

    if end == "finish":
        monkeypatch.setattr(cp.checkpointer_state.transport, "send_write_request", beat_before_answer)
        ends[end]()
    else:
        monkeypatch.setattr(cp.checkpointer_state.transport, "renew_lease", renew_late)
        assert cp.checkpointer_state.renew_leases_and_forget_lost_sessions()
    assert cp.checkpointer_state.list_owned_sessions() == []
    assert sum("is lost" in message for message in caplog.messages) == (end == "take over")


def refuse(*_: Any, **__: Any) -> Response:
    raise AnswerLost("lost", is_sent=True)


def test_agent_waits_at_the_gate_for_a_decision(
    open_checkpointer: Any, server: HttpServer, token: str, caplog: pytest.LogCaptureFixture
) -> None:
    dying = open_checkpointer()
    dying.start_session("s")
    dying.record_tool_call_issued("s", "c1", "pay", {"order": 17}, "key")
    dying.release_session("s")
    approver = SyncCheckpointer(server.address, token=make_token(TokenRole.APPROVER, name="approver"))
    (call,) = approver.pending_decisions()
    arguments = {"actor": "", "reason": "The bank has it.", "revision": call["revision"]}

    def decide_once_agent_waits() -> None:
        wait_until(lambda: bool(caplog.messages))
        approver.confirm_landed("s", "c1", "paid", **arguments)

    decide = threading.Thread(target=decide_once_agent_waits)
    decide.start()
    point = open_checkpointer().resume("s", wait=True, timeout=PATIENCE)
    decide.join()
    assert point.replayable["c1"].content == "paid"
    assert caplog.messages == ["Session 's' waits until a person decides about: pay (c1)."]
    approver.close()


def test_gate_is_streamed_until_the_last_decision(open_checkpointer: Any, server: HttpServer, token: str) -> None:
    dying = open_checkpointer()
    dying.start_session("s")
    for call_id in ("c1", "c2"):
        dying.record_tool_call_issued("s", call_id, "pay", {"order": call_id}, call_id)
    dying.release_session("s")
    approver = SyncCheckpointer(server.address, token=make_token(TokenRole.APPROVER, name="approver"))
    headers = {"Authorization": f"Bearer {token}", "Harness-Client": "x", "Accept": "text/event-stream"}
    event, found = "", cast(list[tuple[str, list[str]]], [])
    with httpx.Client(base_url=f"{server.address}/api/v1", headers=headers, timeout=30) as client:
        opened = client.post("/sessions", json={"session_id": "s", "mode": "resume", "hold": True}).json()
        lost = client.get("/sessions/s/gate", params={"fence": 7})
        assert (lost.status_code, lost.json()["type"]) == (409, "OwnershipLost")
        with client.stream("GET", "/sessions/s/gate", params={"fence": opened["run"]["fence"]}) as response:
            assert response.headers["Content-Type"] == "text/event-stream"
            for line in response.iter_lines():
                if line.startswith("event: "):
                    event = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    waiting = [call["call_id"] for call in json.loads(line.removeprefix("data: "))["undecided"]]
                    found.append((event, waiting))
                    if waiting:
                        approver.mark_failed("s", waiting[0], actor="", reason="The bank has nothing.", revision=2)
    assert found == [("waiting", ["c1", "c2"]), ("waiting", ["c2"]), ("answer", [])]
    approver.close()


def test_server_signs_decisions_and_refuses_forged_ones(
    open_checkpointer: Any, server: HttpServer, token: str, settings: Any
) -> None:
    settings.HARNESS_DECISION_SIGNING_KEY = create_key_pair().signing
    approver = SyncCheckpointer(server.address, token=make_token(TokenRole.APPROVER, name="approver"))
    agent = open_checkpointer()
    agent.start_session("s")
    registry = ToolRegistry(checkpointer=agent, session_id="s")
    registry.tool(requires_approval=True)(_pay)
    for call_id in ("genuine", "forged"):
        with pytest.raises(exceptions.ApprovalRequired):
            registry.dispatch("_pay", {"order": call_id}, call_id)
    approver.approve_call("s", "genuine", actor="", reason="I looked.", revision=1)
    assert registry.dispatch("_pay", {"order": "genuine"}, "genuine").content == "paid genuine"

    ToolCall.objects.filter(call_id="forged").update(status=CallStatus.APPROVED, revision=2)
    with pytest.raises(exceptions.DecisionNotSigned):
        registry.dispatch("_pay", {"order": "forged"}, "forged")
    with pytest.raises(exceptions.SessionQuarantined):
        open_checkpointer().resume("s", takeover=True)
    approver.close()


def test_server_names_the_decisions_that_the_agent_accepts(open_checkpointer: Any, server: HttpServer) -> None:
    approver = SyncCheckpointer(server.address, token=make_token(TokenRole.APPROVER, name="approver"))
    agent = open_checkpointer()
    agent.start_session("s")
    registry = ToolRegistry(checkpointer=agent, session_id="s")
    registry.tool(requires_approval=True)(_pay)
    with pytest.raises(exceptions.ApprovalRequired):
        registry.dispatch("_pay", {"order": "17"}, "c1")
    ToolCall.objects.update(allowed_decisions="approve,reject", revision=2)
    assert approver.pending_decisions()[0]["allowed_decisions"] == ["approve", "reject"]
    with pytest.raises(exceptions.DecisionNotAccepted) as caught:
        approver.respond_call("s", "c1", "Paid by hand.", actor="", revision=2)
    assert (caught.value.kind, caught.value.allowed) == ("respond", ["approve", "reject"])
    approver.reject_call("s", "c1", "No.", actor="", revision=2)
    approver.close()


def _pay(order: str) -> str:
    return f"paid {order}"


async def test_async_client_behaves_alike(server: HttpServer, token: str) -> None:
    async with Checkpointer(server.address, token=token) as cp:
        async with cp.session("s", "Hello") as session:
            assert await session.append([{"role": "user"}]) == 1
        assert (await cp.load("s", 1))["transcript"] == [{"role": "user"}]
        await cp.start_session("s")
        calls = [PeerCall("c1", "stock", sent=False)]
        await cp.pause_for_peers("s", {"step": 1}, [Join("j", calls)])
        told: list[str] = []

        async def send(notice: Notice) -> None:
            told.append(notice.call_id)

        assert (await cp.tell_peers(send), told) == (Told(("c1",)), ["c1"])
        assert await cp.sweep_deadlines() == Swept()
        with pytest.raises(exceptions.StillWaiting):
            await cp.take_paused("s")
        await cp.accept_response("c1", "yes")
        assert (await cp.take_paused("s")).results["c1"].result == "yes"
        record = {"run_id": "r", "schema_version": 1, "phase": "post_llm", "payload": {"model": "m"}, "timestamp_ms": 1}
        assert (await cp.import_record("s", record)).version == 2
        with pytest.raises(exceptions.NotOverHttp):
            await cp.export_session("s", "s.session")
        for client in (cp, cp.sync):
            with pytest.raises(exceptions.NotOverHttp):
                client.store  # noqa: B018 - what works on a database takes it


test_async_client_behaves_alike = pytest.mark.asyncio(test_async_client_behaves_alike)


@pytest.mark.parametrize("last", ["newest", "-1", "1.5", "1" * 19, "\u0661"])
def test_event_id_that_is_no_number_is_refused(server: HttpServer, token: str, last: str) -> None:
    headers = httpx.Headers({"Authorization": f"Bearer {token}", "Accept": "text/event-stream"})
    headers["Last-Event-ID"] = last
    response = httpx.get(f"{server.address}/api/v1/events", headers=headers, timeout=30)
    assert (response.status_code, response.json()["type"]) == (422, "InvalidInput")
    assert response.json()["detail"].startswith("Last-Event-ID is ")


def test_events_are_streamed_and_resumed(server: HttpServer, token: str, cp: SyncCheckpointer) -> None:
    def read(last: str, number: int) -> list[dict[str, Any]]:
        headers = {"Authorization": f"Bearer {token}", "Accept": "text/event-stream", "Last-Event-ID": last}
        found: list[dict[str, Any]] = []
        with httpx.stream("GET", f"{server.address}/api/v1/events", headers=headers, timeout=30) as response:
            assert (response.status_code, response.headers["Content-Type"]) == (200, "text/event-stream")
            for line in response.iter_lines():
                if line.startswith("data: "):
                    found.append(json.loads(line.removeprefix("data: ")))
                if len(found) == number:
                    break
        return found

    cp.start_session("s")
    cp.finish_session("s", "completed")
    events = read("0", 3)
    assert [event["event"] for event in events] == ["session.started", "run.started", "session.finished"]
    assert {event["session_id"] for event in events} == {"s"}
    assert read(str(events[1]["id"]), 1) == events[2:]
