"""Benchmark of one save and one dispatch over HTTP: `python -m benchmarks.http_api [--on postgresql] [--turns 400]`.

Client and server are two processes on this machine. Prints the milliseconds of an operation, the requests and the
statements that it takes, and the function calls of the client and of the server, which a busy machine does not change.
Run it on a machine that does nothing else.
"""

from __future__ import annotations

import cProfile
import json
import pstats
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from benchmarks.duration_samples import DurationSamples
from benchmarks.http_api_site_process import (
    add_database_options_and_parse,
    migrate_and_serve_site,
    run_benchmark_module_on_each_database,
)

if TYPE_CHECKING:
    from django.test import Client

#: Targets in milliseconds, for the median.
TARGETS: Final = {"save": 3.0, "dispatch": 5.0}
#: Operations before those that are measured.
_WARM_UP: Final = 20
_COUNTED: Final = 50
_TEXT: Final = "The lamp arrived broken, and the second parcel was lost. " * 4


@dataclass(frozen=True)
class OperationCosts:
    """Costs of one operation. `client_calls` and `server_calls` are calls of functions."""

    name: str
    times: DurationSamples
    client_calls: int
    requests: int
    statements: int
    server_calls: int


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=400, help="operations that are timed")
    options = add_database_options_and_parse(parser)
    if not options.database:
        run_benchmark_module_on_each_database("benchmarks.http_api", options, [f"--turns={options.turns}"])
        return
    with migrate_and_serve_site(options.database) as (address, token):
        for measured in measure_saves_and_dispatches(address, token, options.turns):
            sys.stdout.write(f"  {format_operation_costs(measured)}\n")


def format_operation_costs(measured: OperationCosts) -> str:
    """Format the costs of one operation as a line."""
    times = measured.times
    return (
        f"{measured.name:<9} p50 {times.median_ms:6.2f} ms (target {TARGETS[measured.name]:.0f}), "
        f"p95 {times.p95_ms:6.2f} ms, "
        f"{measured.requests} requests, {measured.statements} statements, "
        f"calls of functions: client {measured.client_calls}, server {measured.server_calls}"
    )


def measure_saves_and_dispatches(address: str, token: str, turns: int) -> list[OperationCosts]:
    """Measure saves and dispatches of one agent on a site."""
    from checkpoints import SyncCheckpointer, ToolRegistry

    registry = ToolRegistry()
    registry.tool(name="pay", side_effects={"mutate"})(_simulate_payment)
    with SyncCheckpointer(address, token=token) as cp, cp.session("timed", "Pay.", registry=registry) as session:

        def save(turn: int) -> None:
            session.append([{"role": "user", "content": f"{turn} {_TEXT}"}])

        def dispatch(turn: int) -> None:
            session.dispatch("pay", {"order": turn}, f"call_{turn}")

        operations: dict[str, Callable[[int], None]] = {"save": save, "dispatch": dispatch}
        times = {name: _time_each_turn(run, turns) for name, run in operations.items()}
        calls = {name: _count_mean_function_calls(run, turns + _WARM_UP) for name, run in operations.items()}
    server = ServerCostCounter(token)
    costs = {"save": server.count_costs_of_save(), "dispatch": server.count_costs_of_dispatch()}
    return [OperationCosts(name, times[name], calls[name], *costs[name]) for name in operations]


def _simulate_payment(order: int) -> str:
    return f"paid {order}"


def _time_each_turn(run: Callable[[int], None], turns: int) -> DurationSamples:
    seconds = []
    for turn in range(turns + _WARM_UP):
        start = time.perf_counter()
        run(turn)
        seconds.append(time.perf_counter() - start)
    return DurationSamples(seconds[_WARM_UP:])


def _count_mean_function_calls(run: Callable[[int], None], first: int) -> int:
    """Count the function calls of one operation in this thread: the mean of several."""
    profile = cProfile.Profile()
    for turn in range(first, first + _COUNTED):
        profile.enable()
        run(turn)
        profile.disable()
    return _read_call_total_of_profile(profile) // _COUNTED


def _read_call_total_of_profile(profile: cProfile.Profile) -> int:
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


class ServerCostCounter:
    """Counts of what the server does for a request: it is answered in this process, without a network."""

    def __init__(self, token: str) -> None:
        from django.core.handlers.wsgi import WSGIHandler
        from django.test import Client

        WSGIHandler()  # loads the site
        headers = {"Authorization": f"Bearer {token}", "Harness-Client": "counted"}
        self._client: Client = Client(SERVER_NAME="127.0.0.1", headers=headers)
        self._number = 0
        self._fence = self._send_api_request("POST", "/sessions", {"session_id": "counted"})["run"]["fence"]

    def count_costs_of_save(self) -> tuple[int, int, int]:
        """Count requests, statements and function calls of one save."""
        return self._count_requests_statements_and_calls(self._send_save_and_count_requests)

    def count_costs_of_dispatch(self) -> tuple[int, int, int]:
        """Count requests, statements and function calls of one dispatch."""
        return self._count_requests_statements_and_calls(self._send_dispatch_and_count_requests)

    def _send_save_and_count_requests(self, turn: int) -> int:
        body = {"fence": self._fence, "messages": [{"role": "user", "content": _TEXT}], "expected_version": turn}
        self._send_api_request("POST", "/sessions/counted/versions", body)
        return 1

    def _send_dispatch_and_count_requests(self, turn: int) -> int:
        body: dict[str, Any] = {"fence": self._fence, "call_id": f"c{turn}", "tool": "pay", "args": {"order": turn}}
        issued = self._send_api_request("POST", "/sessions/counted/calls", {**body, "idempotency": "call"})
        outcome = {"status": "completed", "result": "paid", "step": issued["step"], "attempt": issued["attempt"]}
        self._send_api_request("PATCH", f"/sessions/counted/calls/c{turn}", {"fence": self._fence, **outcome})
        return 2

    def _count_requests_statements_and_calls(self, run: Callable[[int], int]) -> tuple[int, int, int]:
        from django.db import connection
        from django.test.utils import CaptureQueriesContext

        for turn in range(_WARM_UP):
            run(turn)
        with CaptureQueriesContext(connection) as queries:
            requests = run(_WARM_UP)
        statements = len(queries)  # the next request empties the log
        profile = cProfile.Profile()
        for turn in range(_WARM_UP + 1, _WARM_UP + 1 + _COUNTED):
            profile.enable()
            run(turn)
            profile.disable()
        return requests, statements, _read_call_total_of_profile(profile) // _COUNTED

    def _send_api_request(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        response = self._client.generic(
            method,
            f"/api/v1{path}",
            json.dumps(body),
            content_type="application/json",
            headers={"Idempotency-Key": f"{self._number}"},
        )
        if response.status_code >= 300:
            raise RuntimeError(f"{method} {path} was answered {response.status_code}: {response.content!r}")
        answer: dict[str, Any] = json.loads(response.content)
        return answer


if __name__ == "__main__":
    main()
