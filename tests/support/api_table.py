"""Table of every route of the HTTP API, with the problem that each bad input causes.

A cell is the type of the problem; `-` marks an input that the route does not have.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

#: Bad inputs, in the order of the cells of a row.
INPUTS: Final = (
    "no token",
    "revoked token",
    "wrong role",
    "foreign workspace",
    "lost fence",
    "unknown field",
    "wrong type",
    "NaN",
    "too deep",
    "no object",
    "damaged gzip",
    "too large",
    "reused key",
    "bad parameter",
    "unknown parameter",
)
#: Status of each type of problem.
STATUSES: Final = {
    "TokenInvalid": 401,
    "RoleInsufficient": 403,
    "SessionNotFound": 404,
    "CallNotFound": 404,
    "PeerCallNotFound": 404,
    "RunNotFound": 404,
    "OwnershipLost": 409,
    "InvalidFields": 422,
    "InvalidInput": 422,
    "MalformedRequest": 400,
    "TooLarge": 413,
    "IdempotencyKeyReused": 422,
}


class Route(NamedTuple):
    """Route with a request that is good, and the problem of each of `INPUTS`."""

    method: str
    route: str
    path: str
    body: dict[str, Any] | None
    problems: tuple[str, ...]
    #: Parameter of the query with a value that it cannot have.
    parameter: str = ""


def read_route(route: str, path: str, foreign: str, parameter: str = "", problem: str = "InvalidFields") -> Route:
    """Build the row of a route that reads."""
    cells = ["TokenInvalid", "TokenInvalid", "-", foreign, *["-"] * 9, problem if parameter else "-", "InvalidFields"]
    return Route("GET", route, path, None, tuple(cells), parameter)


def write_route(
    method: str, route: str, path: str, body: dict[str, Any], *, foreign: str = "SessionNotFound", wrong: str = ""
) -> Route:
    """Build the row of a route that writes; `wrong` is a field that gets a value of another type."""
    cells = [
        "TokenInvalid",
        "TokenInvalid",
        "RoleInsufficient",
        foreign,
        "OwnershipLost" if "fence" in body else "-",
        "InvalidFields",
        "InvalidFields" if wrong else "-",
        *["MalformedRequest"] * 4,
        "TooLarge",
        "IdempotencyKeyReused",
        "-",
        "InvalidFields",
    ]
    return Route(method, route, path, body, tuple(cells), wrong)


_SESSION: Final = "sessions/<escaped:session_id>"
FENCE: Final = -1  # stands for the fence of the session
TABLE: Final = (
    read_route("sessions", "/sessions", "-", "limit=x"),
    write_route("POST", "sessions", "/sessions", {"session_id": "new"}, foreign="-", wrong="session_id"),
    read_route(_SESSION, "/sessions/s", "SessionNotFound"),
    read_route(f"{_SESSION}/preview", "/sessions/s/preview", "SessionNotFound"),
    write_route("POST", f"{_SESSION}/heartbeat", "/sessions/s/heartbeat", {"fence": FENCE}, wrong="fence"),
    write_route("POST", f"{_SESSION}/release", "/sessions/s/release", {"fence": FENCE}, wrong="fence"),
    write_route(
        "POST", f"{_SESSION}/finish", "/sessions/s/finish", {"fence": FENCE, "status": "completed"}, wrong="status"
    ),
    write_route("POST", f"{_SESSION}/fork", "/sessions/s/fork", {"new_session_id": "f"}, wrong="new_session_id"),
    write_route("POST", f"{_SESSION}/prune", "/sessions/s/prune", {"keep_last": 1}, wrong="keep_last"),
    write_route(
        "POST",
        f"{_SESSION}/versions",
        "/sessions/s/versions",
        {"fence": FENCE, "messages": [], "expected_version": 1},
        wrong="messages",
    ),
    write_route(
        "POST",
        f"{_SESSION}/phases",
        "/sessions/s/phases",
        {"fence": FENCE, "phase": "post_llm", "details": {"model": "m"}},
        wrong="phase",
    ),
    read_route(f"{_SESSION}/versions", "/sessions/s/versions", "SessionNotFound", "before=x"),
    read_route(f"{_SESSION}/versions/latest", "/sessions/s/versions/latest", "SessionNotFound"),
    read_route(f"{_SESSION}/versions/<int:version>", "/sessions/s/versions/1", "SessionNotFound"),
    read_route(f"{_SESSION}/messages", "/sessions/s/messages", "SessionNotFound", "after=-1", "InvalidInput"),
    read_route("runs/<run_id>", "/runs/{run}", "RunNotFound"),
    write_route(
        "POST",
        f"{_SESSION}/calls",
        "/sessions/s/calls",
        {"fence": FENCE, "call_id": "c9", "tool": "pay", "args": {}},
        wrong="tool",
    ),
    read_route(f"{_SESSION}/calls", "/sessions/s/calls", "SessionNotFound"),
    read_route(f"{_SESSION}/calls/<escaped:call_id>", "/sessions/s/calls/c1", "SessionNotFound", "revision=x"),
    write_route(
        "PATCH",
        f"{_SESSION}/calls/<escaped:call_id>",
        "/sessions/s/calls/c1",
        {"fence": FENCE, "status": "completed", "result": "paid"},
        wrong="status",
    ),
    write_route(
        "POST",
        f"{_SESSION}/calls/<escaped:call_id>/probe",
        "/sessions/s/calls/c1/probe",
        {"fence": FENCE, "answer": "unknown", "step": 1, "attempt": 1, "revision": 1},
        wrong="answer",
    ),
    write_route(
        "POST",
        f"{_SESSION}/calls/<escaped:call_id>/decision",
        "/sessions/s/calls/c1/decision",
        {"kind": "approve", "reason": "Fine.", "revision": 1},
        wrong="kind",
    ),
    read_route("completed-call", "/completed-call?key=k", "-"),
    read_route("pending", "/pending", "-", "after=x"),
    write_route(
        "POST",
        f"{_SESSION}/pause",
        "/sessions/s/pause",
        {"fence": FENCE, "state": {}, "joins": [{"id": "j", "calls": [{"id": "p1", "peer": "b"}]}]},
        wrong="state",
    ),
    write_route("POST", f"{_SESSION}/take", "/sessions/s/take", {"hold": True}, wrong="hold"),
    write_route("POST", f"{_SESSION}/cancel", "/sessions/s/cancel", {"reason": "It is late."}, wrong="reason"),
    write_route("POST", "notices/claim", "/notices/claim", {"limit": 5}, foreign="-", wrong="limit"),
    write_route(
        "POST",
        "peer-calls/<escaped:peer_call_id>/notice",
        "/peer-calls/p0/notice",
        {"kind": "request", "attempt": 1, "delivered": True},
        foreign="PeerCallNotFound",
        wrong="attempt",
    ),
    write_route("POST", "peer-calls/sweep", "/peer-calls/sweep", {"limit": 5}, foreign="-", wrong="limit"),
    write_route(
        "POST", "peer-calls/<escaped:peer_call_id>/response", "/peer-calls/p0/response", {"result": 1}, foreign="-"
    ),
    write_route(
        "POST",
        "peer-calls/<escaped:peer_call_id>/deadline",
        "/peer-calls/p0/deadline",
        {"seconds": 5},
        foreign="PeerCallNotFound",
        wrong="seconds",
    ),
    read_route("paused", "/paused", "-", "limit=x"),
    read_route(f"{_SESSION}/peer-calls", "/sessions/s/peer-calls", "SessionNotFound"),
    read_route(f"{_SESSION}/export", "/sessions/s/export", "SessionNotFound"),
    read_route(f"{_SESSION}/workflows", "/sessions/s/workflows", "SessionNotFound"),
    read_route(f"{_SESSION}/workflows/<escaped:workflow_id>", "/sessions/s/workflows/w", "SessionNotFound"),
    write_route(
        "POST",
        f"{_SESSION}/workflows/<escaped:workflow_id>",
        "/sessions/s/workflows/w",
        {"fence": FENCE},
        wrong="fence",
    ),
    write_route(
        "POST",
        f"{_SESSION}/workflows/<escaped:workflow_id>/steps",
        "/sessions/s/workflows/w/steps",
        {"fence": FENCE, "step_id": "reserve", "tool": "reserve", "args": {}},
        wrong="step_id",
    ),
    read_route("events", "/events?after=0", "-", "limit=x"),
    read_route("search", "/search?q=hi", "-", "before=x", "InvalidInput"),
    Route(
        "GET",
        f"{_SESSION}/gate",
        "/sessions/s/gate?fence={fence}",
        None,
        (
            "TokenInvalid",
            "TokenInvalid",
            "RoleInsufficient",
            "SessionNotFound",
            *["-"] * 9,
            "InvalidFields",
            "InvalidFields",
        ),
        "fence=x",
    ),
    Route(
        "DELETE",
        _SESSION,
        "/sessions/s",
        None,
        (
            "TokenInvalid",
            "TokenInvalid",
            "RoleInsufficient",
            "SessionNotFound",
            *["-"] * 9,
            "InvalidFields",
            "InvalidFields",
        ),
        "dry_run=x",
    ),
    Route(
        "DELETE",
        f"{_SESSION}/versions/<int:version>",
        "/sessions/s/versions/1",
        None,
        ("TokenInvalid", "TokenInvalid", "RoleInsufficient", "SessionNotFound", *["-"] * 10, "InvalidFields"),
    ),
)
