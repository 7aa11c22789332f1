"""Writes with an `Idempotency-Key`: done once, answered as often as they are repeated.

The key is noted before the write, together with a digest of the request. A repetition whose answer was stored gets
that answer. One whose answer was lost is done again with the knowledge that the first attempt was never answered: each
verb of the library then finds what the first attempt wrote.

A tool call that was issued is claimed by the write that is told to run it, before it is told. So a repetition that
finds an issued call knows whether its first attempt was told, or somebody else, or nobody.
"""

from __future__ import annotations

import hashlib
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from http import HTTPStatus
from itertools import count
from typing import Any, Final

from django.db import IntegrityError, connection
from django.http import HttpResponse

from checkpoints.db import clock
from checkpoints.exceptions import IdempotencyKeyReused, RequestInProgress
from checkpoints.ids import validate_id
from harness_site.accounts.models import ApiToken
from harness_site.api.json_responses import JSON
from harness_site.api.models import ApiWrite
from harness_site.api.problems import PROBLEM

#: Time for which a key is remembered.
KEPT_FOR: Final = timedelta(days=2)
#: Largest answer that is stored, in characters.
_MAX_STORED_CHARS: Final = 4_096
_CLEANUP_INTERVAL: Final = 500
#: Answers that a repetition may find changed: the write was not done, or waits for something.
_TRANSIENT_STATUSES: Final = frozenset(
    {HTTPStatus.ACCEPTED, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}
)

#: Statements of every write, which are not compiled from a query each time.
_TABLE: Final = ApiWrite._meta.db_table
_NOTE: Final = (
    f"INSERT INTO {_TABLE} (token_id, key, digest, body) VALUES (%s, %s, %s, '') "  # noqa: S608
    "ON CONFLICT (token_id, key) DO NOTHING RETURNING id"
)
_UPDATE_SQL: Final = f"UPDATE {_TABLE} SET status = %s, body = %s, call = %s WHERE id = %s RETURNING id"  # noqa: S608
#: What a statement returns besides: the setting holds for its transaction.
_WITHOUT_SYNC: Final = {"postgresql": ", set_config('synchronous_commit', 'off', true)"}

_writes = count(1)
_lock = threading.Lock()
_served: set[tuple[int, str]] = set()


def serve_write_once(
    token: ApiToken, key: str, parts: tuple[str, str, bytes], serve: Callable[[ApiWrite | None], HttpResponse]
) -> HttpResponse:
    """Answer a write with a key. `parts` are method, path and body; `serve` does it; a repetition gets the
    note of the first attempt.

    Raises `IdempotencyKeyReused`, `RequestInProgress`, `InvalidIdentifier`.
    """
    validate_id("Idempotency-Key", key)
    digest = hashlib.sha256(b"\0".join((parts[0].encode(), parts[1].encode(), parts[2]))).hexdigest()
    with _refuse_concurrent_write((token.pk, key)):
        row, repeated = _get_or_create_write_row(token, key, digest)
        if repeated and row.digest != digest:
            raise IdempotencyKeyReused(key)
        if repeated and row.status is not None and row.body:
            kind = PROBLEM if row.status >= HTTPStatus.BAD_REQUEST else JSON
            response = HttpResponse(row.body.encode(), status=row.status, content_type=kind)
            response["Idempotency-Replayed"] = "true"
            return response
        response = serve(row if repeated else None)
        return response if _store_response(row, response) else response.told_elsewhere  # type: ignore[attr-defined]


def compute_write_name(token: ApiToken, key: str) -> str:
    """Name a write by its key; one without a key has a new name each time."""
    return hashlib.blake2b(f"{token.pk} {key}".encode(), digest_size=16).hexdigest() if key else uuid.uuid4().hex


def claim_call_of_write_without_key(token: ApiToken, response: HttpResponse) -> HttpResponse:
    """Claim the call that a write without a key is told to run. Returns the answer."""
    call = getattr(response, "issued_call", None)
    if call is None or claim_call_for_write(
        ApiWrite(token=token, key=uuid.uuid4().hex, status=response.status_code), call
    ):
        return response
    return response.told_elsewhere  # type: ignore[attr-defined,no-any-return]


def claim_call_for_write(write: ApiWrite, call: int) -> bool:
    """Claim an issued call for a write. Returns False if another write was told to run it."""
    if write.call == call:
        return True
    write.call = call
    try:
        if write._state.adding:
            write.save()
        else:
            _execute_without_sync(_UPDATE_SQL, [write.status, write.body, call, write.pk])
    except IntegrityError:
        write.call = None
        return False
    return True


@contextmanager
def _refuse_concurrent_write(name: tuple[int, str]) -> Iterator[None]:
    with _lock:
        if name in _served:
            raise RequestInProgress(name[1])
        _served.add(name)
    try:
        yield
    finally:
        with _lock:
            _served.discard(name)


def _get_or_create_write_row(token: ApiToken, key: str, digest: str) -> tuple[ApiWrite, bool]:
    """Return the row of the key, and whether it was there before."""
    if next(_writes) % _CLEANUP_INTERVAL == 0:
        ApiWrite.objects.filter(created_at__lt=clock.now() - KEPT_FOR).delete()
    if written := _execute_without_sync(_NOTE, [token.pk, key, digest]):
        row = ApiWrite(pk=written[0], token=token, key=key, digest=digest)
        row._state.adding = False
        return row, False
    return ApiWrite.objects.get(token=token, key=key), True


def _store_response(row: ApiWrite, response: HttpResponse) -> bool:
    """Store the answer, and claim the call that it tells to run. Returns False if another write has claimed it."""
    if response.status_code in _TRANSIENT_STATUSES or response.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return True
    body = response.content.decode() if getattr(response, "stored_with_key", False) else ""
    row.status, row.body = response.status_code, body if len(body) <= _MAX_STORED_CHARS else ""
    call: int | None = getattr(response, "issued_call", None)
    if call is not None and call != row.call:
        return claim_call_for_write(row, call)
    _execute_without_sync(_UPDATE_SQL, [row.status, row.body, row.call, row.pk])
    return True


def _execute_without_sync(statement: str, parameters: Sequence[Any]) -> tuple[Any, ...] | None:
    """Execute one statement, and commit without waiting for the disk. Returns the first row of its result.

    A key has to survive the end of a process, and the write itself is synced. After a loss of power a repetition is a
    new request, which the versions and fences of the library still refuse.
    """
    is_sqlite = connection.vendor == "sqlite" and not connection.in_atomic_block
    with connection.cursor() as cursor:
        if is_sqlite:
            connection.connection.execute("PRAGMA synchronous=NORMAL")
        try:
            cursor.execute(statement + _WITHOUT_SYNC.get(connection.vendor, ""), parameters)
            rows = cursor.fetchall()
        finally:
            if is_sqlite:
                connection.connection.execute("PRAGMA synchronous=FULL")
    return rows[0] if rows else None


def attach_issued_call_to_response(response: HttpResponse, call: int, told_elsewhere: HttpResponse) -> HttpResponse:
    """Let the answer tell its write to run a call; `told_elsewhere` is the answer if another write was told first."""
    response.issued_call, response.told_elsewhere = call, told_elsewhere  # type: ignore[attr-defined]
    return response


def mark_response_as_storable(response: HttpResponse) -> HttpResponse:
    """Let the answer be stored with its key: it has no content of a session."""
    response.stored_with_key = True  # type: ignore[attr-defined]
    return response
