"""Requests of the MCP tools to the HTTP API, over the network or inside the process of the site."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import anyio
import httpx

from checkpoints.remote.transport import escape_identifier
from checkpoints.server_or_database_url import API_PATH

#: Pauses in seconds before a request is repeated whose answer was lost.
PAUSES: Final = (0.1, 0.5, 1.0, 2.0)
#: Longest wait in seconds that a server can ask for with `Retry-After`.
_MAX_RETRY_AFTER: Final = 5.0
#: Problems after which the same request can succeed.
_TRANSIENT_PROBLEMS: Final = frozenset({"RateLimited", "RequestInProgress", "StorageBusy", "StorageUnavailable"})
#: Answers of a proxy that did not reach the server.
_GATEWAY_STATUSES: Final = frozenset({502, 503, 504})
#: Seconds for the answer of a request.
ANSWER_SECONDS: Final = 60.0


@dataclass
class ApiProblem(Exception):
    """Problem that the API answered, or that the API could not be reached."""

    type: str
    detail: str
    hint: str = ""
    may_have_happened: bool = False
    #: Seconds after which the server asks to send the request again; 0 where it does not.
    retry_after: float = 0.0

    def __str__(self) -> str:
        parts = [f"{self.type}: {self.detail}", self.hint]
        if self.may_have_happened:
            parts.append("It may have happened all the same: read the call again.")
        return " ".join(part for part in parts if part)


def build_api_path(*parts: str) -> str:
    """Build a path of the API from identifiers and names, with the escapes that `docs/http-api.md` describes."""
    return "/".join(escape_identifier(part) for part in parts)


class ApiRequests:
    """Client of the HTTP API with one token, for one or many requests."""

    def __init__(
        self,
        address: str,
        headers: Mapping[str, str],
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._client = httpx.AsyncClient(
            base_url=f"{address.rstrip('/')}{API_PATH}/",
            headers=dict(headers),
            transport=transport,
            timeout=httpx.Timeout(ANSWER_SECONDS, connect=5.0),
            trust_env=transport is None,
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def get_resource(self, path: str, **parameters: Any) -> Any:
        """Request a resource. Parameters that are None are left out. Raises `ApiProblem`."""
        given = {name: value for name, value in parameters.items() if value is not None}
        return await self._send_with_retries("GET", path, params=given)

    async def post_with_idempotency_key(self, path: str, fields: Mapping[str, Any]) -> Any:
        """Do a write, once: all attempts have the same key. Fields that are None are left out. Raises `ApiProblem`."""
        given = {name: value for name, value in fields.items() if value is not None}
        return await self._send_with_retries("POST", path, json=given, headers={"Idempotency-Key": uuid.uuid4().hex})

    async def _send_with_retries(self, method: str, path: str, **options: Any) -> Any:
        """Send a request until it is answered, or until all attempts have failed. Raises `ApiProblem`."""
        may_have_happened = False
        for pause in (*PAUSES, None):
            try:
                return _parse_response_or_raise_problem(await self._client.request(method, path, **options))
            except httpx.TransportError as error:
                may_have_happened |= method != "GET" and not isinstance(error, httpx.ConnectError)
                if pause is None:
                    raise ApiProblem(
                        "ServerUnavailable",
                        f"{self._client.base_url} did not answer ({type(error).__name__}).",
                        "Start the site with `harness serve`, or check HARNESS_URL.",
                        may_have_happened,
                    ) from error
            except ApiProblem as problem:
                if problem.type not in _TRANSIENT_PROBLEMS:
                    raise
                problem.may_have_happened |= may_have_happened
                may_have_happened = problem.may_have_happened
                if pause is None:
                    raise
                pause = max(pause, min(problem.retry_after, _MAX_RETRY_AFTER))
            await anyio.sleep(pause)
        raise AssertionError  # the loop ends by an answer or an error


def _parse_response_or_raise_problem(response: httpx.Response) -> Any:
    try:
        value = response.json()
    except ValueError:
        value = None
    if response.is_success and value is not None:
        return value
    if isinstance(value, dict) and "type" in value and "detail" in value:
        seconds = response.headers.get("Retry-After", "")
        raise ApiProblem(
            str(value["type"]),
            str(value["detail"]),
            str(value.get("hint", "")),
            bool(value.get("may_have_happened")),
            float(seconds) if seconds.isdecimal() else 0.0,
        )
    if response.status_code in _GATEWAY_STATUSES:
        raise httpx.RemoteProtocolError(f"a proxy answered {response.status_code}")
    raise ApiProblem(
        "ServerFailed",
        f"The server answered {response.status_code} without a problem document.",
        "Check that HARNESS_URL is the address of a Harness site.",
    )
