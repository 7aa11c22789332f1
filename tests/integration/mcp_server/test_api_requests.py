"""Requests of the MCP tools: repeated as the server asks, with the same key."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from checkpoints.exceptions import StorageBusy, StorageUnavailable
from harness_site.api.problem_details import build_problem_response
from harness_site.mcp_server import api_requests
from harness_site.mcp_server.api_requests import ApiProblem, ApiRequests

UNAVAILABLE = StorageUnavailable("It restarts.", may_have_happened=True)
BUSY = StorageBusy("It is busy.", may_have_happened=False)

Answer = httpx.Response | Exception


def build_problem(error: Any) -> httpx.Response:
    response = build_problem_response(error)
    return httpx.Response(response.status_code, headers=dict(response.items()), content=response.content)


class Server:
    """Transport that gives the next of its answers, and the pauses before the requests."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: Answer) -> None:
        self._answers = list(answers)
        self.keys: list[str | None] = []
        self.pauses: list[float] = []
        monkeypatch.setattr(api_requests, "anyio", SimpleNamespace(sleep=self._pause))

    async def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.keys.append(request.headers.get("Idempotency-Key"))
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def run(self, send: Callable[[ApiRequests], Any]) -> Any:
        async def talk() -> Any:
            api = ApiRequests("http://site", {}, httpx.MockTransport(self.answer))
            try:
                return await send(api)
            finally:
                await api.close()

        return asyncio.run(talk())


def write(api: ApiRequests) -> Any:
    return api.post_with_idempotency_key("sessions/s/calls/c/decision", {"kind": "approve"})


def test_write_waits_as_the_server_asks_while_the_database_gives_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(monkeypatch, build_problem(UNAVAILABLE), build_problem(BUSY), httpx.Response(200, json={"a": 1}))
    assert server.run(write) == {"a": 1}
    assert server.pauses == [1.0, 1.0]
    assert (len(server.keys), len(set(server.keys)), None in server.keys) == (3, 1, False)


def test_server_that_asks_for_a_long_wait_is_asked_again_after_five_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = build_problem(BUSY)
    problem.headers["Retry-After"] = "3600"
    server = Server(monkeypatch, problem, httpx.Response(200, json=[]))
    assert (server.run(lambda api: api.get_resource("sessions")), server.pauses) == ([], [5.0])


@pytest.mark.parametrize(("answers", "happened"), [((UNAVAILABLE, BUSY), True), ((BUSY, BUSY), False)])
def test_write_that_is_never_answered_says_whether_it_may_have_happened(
    monkeypatch: pytest.MonkeyPatch, answers: tuple[Any, ...], happened: bool
) -> None:
    server = Server(monkeypatch, *(build_problem(error) for error in answers))
    with pytest.raises(ApiProblem) as failed:
        server.run(write)
    assert (failed.value.type, failed.value.may_have_happened) == ("StorageBusy", happened)
    assert len(server.keys) == len(api_requests.PAUSES) + 1


def test_proxy_that_does_not_reach_the_site_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(monkeypatch, httpx.Response(503, text="no"), httpx.Response(200, json={"a": 1}))
    assert server.run(write) == {"a": 1}
    lost = Server(monkeypatch, httpx.Response(502, text="no"))
    with pytest.raises(ApiProblem) as failed:
        lost.run(write)
    assert (failed.value.type, failed.value.may_have_happened) == ("ServerUnavailable", True)
