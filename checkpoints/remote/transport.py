"""Requests to the server: each write has a key, so that a repetition after a lost answer finds what was done."""

from __future__ import annotations

import gzip
import hashlib
import inspect
import json
import time
import uuid
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote, urlencode

from checkpoints import exceptions
from checkpoints.exceptions import (
    CheckpointerClosed,
    CheckpointsError,
    InvalidInput,
    RateLimited,
    RequestInProgress,
    ServerFailed,
    ServerUnavailable,
    StorageBusy,
    StorageError,
    StorageUnavailable,
)
from checkpoints.formats.canonical_json import parse_json
from checkpoints.remote.http_connections import AnswerLost, HttpConnections, Response
from checkpoints.server_or_database_url import API_PATH
from checkpoints.version import __version__

#: Pauses in seconds before a request is repeated, once for each.
PAUSES: Final = (0.05, 0.2, 0.5, 1.0, 2.0)
#: Longest wait in seconds that a server can ask for with `Retry-After`.
_MAX_RETRY_AFTER: Final = 5.0
#: Seconds for a connection, and for the answer of a request that does not wait.
CONNECT_SECONDS: Final = 5.0
ANSWER_SECONDS: Final = 60.0
#: Seconds for the answer of a heartbeat: a lost one is sent again before the lease runs out.
BEAT_SECONDS: Final = 10.0
#: Writes without an answer whose keys are remembered.
_REMEMBERED: Final = 1_000
#: Bodies from this size are compressed.
_COMPRESSED_FROM: Final = 16_384
_READS: Final = frozenset({"GET"})
#: Attributes of errors that are times.
_TIMES: Final = frozenset({"last_seen", "lease_ends", "at", "deadline"})


def escape_identifier(identifier: str) -> str:
    """Return an identifier as one segment of a path, with the escapes that the server's `EscapedConverter` decodes."""
    escaped = identifier.replace("~", "~0").replace("/", "~1")
    if set(escaped) == {"."}:
        escaped = escaped.replace(".", "~2")
    return quote(escaped, safe="~")


@dataclass(frozen=True)
class ServerAnswer:
    """Answer of the server that is no error."""

    status: int
    value: Any


class Transport:
    """Connections to one server with one token. Safe to use from many threads."""

    def __init__(self, url: str, token: str | None) -> None:
        if not token:
            raise InvalidInput('A server needs a token: Checkpointer("https://…", token=…).')
        #: Name of this client: what it opens is its own.
        self.name = uuid.uuid4().hex
        #: Keys of writes that may have happened, by their digests: the same write again has the same key.
        self._unanswered: OrderedDict[bytes, str] = OrderedDict()
        self._is_closed = False
        self._connections = HttpConnections(
            url,
            API_PATH,
            {
                "Authorization": f"Bearer {token}",
                "Harness-Client": self.name,
                "Content-Type": "application/json",
                "Accept-Encoding": "gzip",
                "User-Agent": f"harness-checkpoints/{__version__}",
            },
        )

    def close(self) -> None:
        """Close the connections."""
        self._is_closed = True
        self._connections.close()

    def send_read_request(self, path: str, **parameters: Any) -> Any:
        """Request a resource. Raises what the server raises, and `ServerUnavailable`."""
        given = {name: _encode_parameter(value) for name, value in parameters.items() if value is not None}
        seconds = ANSWER_SECONDS + float(given.get("wait", 0))
        target = f"{path}?{urlencode(given, quote_via=quote)}" if given else path
        return self._send_request_with_retries("GET", target, b"", {}, seconds).value

    def send_write_request(
        self, method: str, path: str, fields: Mapping[str, Any], *, key: str | None = None, raw: Mapping[str, str] = {}
    ) -> ServerAnswer:
        """Do a write, once. `raw` are fields as JSON text; `key` is the key of a request that is made again.

        Raises what the server raises, and `ServerUnavailable`, which says whether the write may have happened. The
        caller who then makes the same write again learns what the first one did.
        """
        parts = [f"{json.dumps(name)}:{_encode_as_json(value)}" for name, value in fields.items()]
        parts += [f"{json.dumps(name)}:{text}" for name, text in raw.items()]
        body = f"{{{','.join(parts)}}}".encode()
        digest = hashlib.blake2b(f"{method} {path} ".encode() + body, digest_size=16).digest()
        key = self._unanswered.pop(digest, None) or key or uuid.uuid4().hex
        headers = {"Idempotency-Key": key}
        if len(body) >= _COMPRESSED_FROM:
            body = gzip.compress(body, compresslevel=1)
            headers["Content-Encoding"] = "gzip"
        try:
            return self._send_request_with_retries(method, path, body, headers, ANSWER_SECONDS)
        except StorageError as error:
            if error.may_have_happened:
                self._unanswered[digest] = key
                while len(self._unanswered) > _REMEMBERED:
                    self._unanswered.popitem(last=False)
            raise

    def renew_lease(self, path: str, fence: int) -> None:
        """Send a heartbeat once. It has no key, as it may arrive twice, and waits only while the next one is not due.

        Raises what the server raises, and `ServerUnavailable`.
        """
        try:
            self._send_request_once("POST", path, f'{{"fence":{fence}}}'.encode(), {}, BEAT_SECONDS)
        except AnswerLost as error:
            raise self._build_unavailable_error(error, may_have_happened=True) from error

    def _send_request_with_retries(
        self, method: str, target: str, body: bytes, headers: Mapping[str, str], seconds: float
    ) -> ServerAnswer:
        may_have_happened = False
        for pause in (*PAUSES, None):
            try:
                return self._send_request_once(method, target, body, headers, seconds)
            except AnswerLost as error:
                may_have_happened |= method not in _READS and error.is_sent
                if pause is None:
                    raise self._build_unavailable_error(error, may_have_happened=may_have_happened) from error
            except (RequestInProgress, RateLimited, StorageUnavailable, StorageBusy) as error:
                may_have_happened |= method not in _READS and getattr(error, "may_have_happened", False)
                if pause is None:
                    if isinstance(error, StorageError):
                        raise type(error)(error.what, may_have_happened=may_have_happened) from error
                    raise
                pause = max(pause, min(getattr(error, "retry_after", 0.0), _MAX_RETRY_AFTER))
            time.sleep(pause)
        raise AssertionError  # the loop ends by an answer or an error

    def _send_request_once(
        self, method: str, target: str, body: bytes, headers: Mapping[str, str], seconds: float
    ) -> ServerAnswer:
        if self._is_closed:
            raise CheckpointerClosed
        connect_seconds = min(CONNECT_SECONDS, seconds)
        response = self._connections.send_once_and_read_response(
            method, target, headers, body, seconds=seconds, connect_seconds=connect_seconds
        )
        if response.status >= HTTPStatus.MULTIPLE_CHOICES:
            raise _build_error_of_response(response)
        return ServerAnswer(response.status, parse_json(response.text) if response.content else None)

    def _build_unavailable_error(self, error: AnswerLost, *, may_have_happened: bool) -> ServerUnavailable:
        what = f"{self._connections.base_url} did not answer ({error})."
        return ServerUnavailable(what, may_have_happened=may_have_happened)


def _encode_parameter(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _encode_as_json(value: Any) -> str:
    from checkpoints.formats.canonical_json import to_canonical_json

    return to_canonical_json(value, "request")


def _build_error_of_response(response: Response) -> CheckpointsError:
    """Build the exception that a problem names."""
    try:
        problem = response.parse_json()
        kind = getattr(exceptions, problem["type"])
        facts = {name: _parse_error_attribute_if_time(name, value) for name, value in problem["facts"].items()}
        detail = str(problem["detail"])
    except (ValueError, KeyError, TypeError, AttributeError):
        text = response.text[:200]
        return ServerFailed(f"The server answered {response.status}: {text!r}.", may_have_happened=True)
    if not inspect.isclass(kind) or not issubclass(kind, CheckpointsError):
        return ServerFailed(f"The server answered {problem['type']}: {detail}", may_have_happened=True)
    error = kind.__new__(kind)
    error.args = (detail,)
    vars(error).update(facts)
    if hasattr(error, "may_have_happened") or issubclass(kind, exceptions.StorageError):
        vars(error)["may_have_happened"] = bool(problem.get("may_have_happened"))
    seconds = response.headers.get("retry-after", "")
    if seconds.isdecimal():  # a proxy can send a date instead
        vars(error).setdefault("retry_after", float(seconds))
    return error


def _parse_error_attribute_if_time(name: str, value: Any) -> Any:
    if name in _TIMES and isinstance(value, str):
        try:
            return datetime.fromisoformat(value)
        except ValueError:
            return value
    return value
