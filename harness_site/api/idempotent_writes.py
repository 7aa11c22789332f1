"""Writes with an `Idempotency-Key`: done once, answered as often as they are repeated.

The key is noted before the write, together with a digest of the request; or by the write, where its first statement can
do that and check the token too. A repetition whose answer was stored gets
that answer. One whose answer was lost is done again with the knowledge that the first attempt was never answered: each
verb of the library then finds what the first attempt wrote.

Where that gives the same answer, as for saves and outcomes of calls, the answer is not stored before it is sent: those
of half a second are stored together, and until then this process has them in memory. Another process, or one that takes
the place of this one, finds what was written.

A tool call that was issued is claimed by the write that is told to run it, before it is told. So a repetition that
finds an issued call knows whether its first attempt was told, or somebody else, or nobody.
"""

from __future__ import annotations

import hashlib
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from http import HTTPStatus
from itertools import count
from typing import Any, Final

from django.db import DEFAULT_DB_ALIAS, IntegrityError, connection, connections
from django.http import HttpResponse

from checkpoints.db import authenticated_idempotent_write_guard, clock
from checkpoints.db.authenticated_idempotent_write_guard import GuardedWriteRefused, GuardSql, WriteGuard
from checkpoints.db.hot_statements import NOW_SQL
from checkpoints.exceptions import IdempotencyKeyReused, RequestInProgress
from checkpoints.generate_and_validate_ids import validate_id
from harness_site.accounts import api_tokens
from harness_site.accounts.models import ApiToken
from harness_site.api.json_responses import JSON
from harness_site.api.models import ApiWrite
from harness_site.api.problem_details import PROBLEM
from harness_site.core.deferred_writes import DeferredWrites

#: Time for which a key is remembered.
KEPT_FOR: Final = timedelta(days=2)
#: Largest answer that is stored, in characters.
_MAX_STORED_CHARS: Final = 4_096
_CLEANUP_INTERVAL: Final = 500
#: Answers that one statement stores at most; SQLite bounds the parameters of a statement.
_ANSWERS_OF_A_STATEMENT: Final = 1_000
#: Answers that a repetition may find changed: the write was not done, or waits for something.
_TRANSIENT_STATUSES: Final = frozenset(
    {HTTPStatus.ACCEPTED, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}
)

#: Answers that a write may get because its repetition has done it: what it changes has changed, or is gone.
_STATUSES_OF_OVERTAKEN_WRITES: Final = frozenset({HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND})

#: Statements of every write, which are not compiled from a query each time.
_TABLE: Final = ApiWrite._meta.db_table
#: Time of a note. A repetition looks for rows that are not older than the note, and their times are those of the
#: database or of this process.
_NOTED_AT: Final = {"postgresql": f"LEAST({NOW_SQL['postgresql']}, %s)", "sqlite": f"MIN({NOW_SQL['sqlite']}, %s)"}
_NOTES: Final = {
    vendor: f"INSERT INTO {_TABLE} (token_id, key, digest, created_at, body) "  # noqa: S608
    f"VALUES (%s, %s, %s, {noted_at}, '') ON CONFLICT (token_id, key) DO NOTHING RETURNING id"
    for vendor, noted_at in _NOTED_AT.items()
}
_UPDATE_SQL: Final = f"UPDATE {_TABLE} SET status = %s, body = %s, call = %s WHERE id = %s RETURNING id"  # noqa: S608
#: Fields of a key that has just been noted.
_NOTE_FIELDS: Final = ["id", "token_id", "key", "digest", "status", "body", "call"]
#: What a statement returns besides: the setting holds for its transaction.
_WITHOUT_SYNC: Final = {"postgresql": ", set_config('synchronous_commit', 'off', true)"}

#: Statement that reads a token and notes a key of it, if the token is valid and the key is new. It returns the fields
#: of the token, and the key of the note. SQLite has no such statement, and no round trips.
_NOTE_WITH_TOKEN: Final = (
    f"WITH token AS MATERIALIZED ({api_tokens.SELECT}), note AS ("  # noqa: S608
    f"INSERT INTO {_TABLE} (token_id, key, digest, created_at, body) "
    f"SELECT id, %s, %s, {_NOTED_AT['postgresql']}, '' FROM token "
    "WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now()) "
    "ON CONFLICT (token_id, key) DO NOTHING RETURNING id) "
    f"SELECT token.*, (SELECT id FROM note){_WITHOUT_SYNC['postgresql']} FROM token"
)

#: Condition and note of a write that makes its note itself.
_GUARDS: Final = {
    vendor: GuardSql(
        condition=f"{api_tokens.IS_VALID} "  # noqa: S608
        f"AND NOT EXISTS (SELECT 1 FROM {_TABLE} WHERE token_id = %s AND key = %s)",
        insert=f"INSERT INTO {_TABLE} (token_id, key, digest, created_at, body, call) "
        f"SELECT %s, %s, %s, {noted_at}, '', {{call}}",
        set_call=f"UPDATE {_TABLE} SET call = %s WHERE id = %s",  # noqa: S608
    )
    for vendor, noted_at in _NOTED_AT.items()
}

_writes = count(1)
_lock = threading.Lock()
_served: set[tuple[str, str]] = set()


@dataclass(frozen=True)
class KeyedWrite:
    """Write with an `Idempotency-Key`, as it was requested. `body` is not compressed."""

    method: str
    path: str
    body: bytes
    key: str

    @cached_property
    def digest(self) -> str:
        """Digest of method, path and body."""
        return hashlib.sha256(b"\0".join((self.method.encode(), self.path.encode(), self.body))).hexdigest()


@contextmanager
def refuse_concurrent_requests_with_key(authorization: str, key: str) -> Iterator[None]:
    """Serve one request with a key at a time. Raises `RequestInProgress` while another one is served."""
    name = authorization, key
    with _lock:
        if name in _served:
            raise RequestInProgress(key)
        _served.add(name)
    try:
        yield
    finally:
        with _lock:
            _served.discard(name)


class KeyStoringTokenReader:
    """Reader of a token's row that notes the key of a write in the same statement of PostgreSQL."""

    def __init__(self, write: KeyedWrite) -> None:
        self._write = write
        self._note: int | None = None

    def read_token_row_and_store_key(self, digest: str) -> tuple[Any, ...] | None:
        """Read the row of a token; note the key if the token is valid and the key is new."""
        with connection.cursor() as cursor:
            cursor.execute(_NOTE_WITH_TOKEN, [digest, self._write.key, self._write.digest, clock.now()])
            row = cursor.fetchone()
        if row is None:
            return None
        fields = len(api_tokens.FIELDS)
        self._note = row[fields]
        return tuple(row[:fields])

    def build_api_write_if_key_newly_stored(self, token: ApiToken) -> ApiWrite | None:
        """Build the note; None if the key was noted before."""
        return None if self._note is None else _build_row_of_stored_key(self._note, token, self._write)


def serve_write_once(
    token: ApiToken, write: KeyedWrite, new_row: ApiWrite | None, serve: Callable[[ApiWrite | None], HttpResponse]
) -> HttpResponse:
    """Answer a write with a key. `new_row` is its row, if it has just been made; `serve` does the write, and a
    repetition gets the row of the first attempt.

    Raises `IdempotencyKeyReused`, `InvalidIdentifier`.
    """
    _delete_old_writes_sometimes()
    row, repeated = (new_row, False) if new_row is not None else _get_or_create_write_row(token, write)
    if repeated:
        if row.digest != write.digest:
            raise IdempotencyKeyReused(write.key)
        status, body = _answers.find_unwritten_value(row.pk) or (row.status, row.body)
        if status is not None and body:
            kind = PROBLEM if status >= HTTPStatus.BAD_REQUEST else JSON
            response = HttpResponse(body.encode(), status=status, content_type=kind)
            response["Idempotency-Replayed"] = "true"
            return response
        ApiWrite.objects.filter(pk=row.pk).update(repeated=True)
    response = serve(row if repeated else None)
    if not repeated and _may_result_from_faster_repetition(response) and _is_repeated_elsewhere(row):
        response = serve(row)  # the repetition may have been faster; then this attempt finds what it wrote
    return response if _store_response_and_claim_call(row, response) else response.build_answer_for_others()  # type: ignore[attr-defined]


def _may_result_from_faster_repetition(response: HttpResponse) -> bool:
    """Return True if the answer is one that a write gets whose repetition was faster."""
    return response.status_code in _STATUSES_OF_OVERTAKEN_WRITES or getattr(response, "found_nothing", False)


def _is_repeated_elsewhere(row: ApiWrite) -> bool:
    return ApiWrite.objects.filter(pk=row.pk, repeated=True).exists()


def refuse_write_unless_key_is_stored_first() -> None:
    """Refuse to be served by one statement, so that the key of this request is stored before anything else is done."""
    authenticated_idempotent_write_guard.raise_refused_if_guarded(
        authenticated_idempotent_write_guard.find_guard_of_next_write(connection)
    )


def _delete_old_writes_sometimes() -> None:
    if next(_writes) % _CLEANUP_INTERVAL == 0:
        ApiWrite.objects.filter(created_at__lt=clock.now() - KEPT_FOR).delete()


def serve_write_that_stores_key(
    token: ApiToken, write: KeyedWrite, serve: Callable[[ApiWrite | None], HttpResponse]
) -> HttpResponse | None:
    """Answer a write whose first statement checks the token, notes the key and writes, all or nothing.

    `token` is as this process has last read it, and its key is valid. Returns None if nothing was written: the token is
    not valid any more, the key was noted before, or `serve` does something else first. Then the request has to be
    served by `serve_write_once`. A database that is busy or cannot be reached is not asked again: the client repeats
    the request later.
    """
    now = connection.ops.adapt_datetimefield_value(clock.now())
    guard = WriteGuard(
        _GUARDS[connection.vendor],
        [token.digest, token.role, token.workspace_id, now, token.pk, write.key],
        [token.pk, write.key, write.digest, now],
    )
    try:
        with guard.guard_first_write(connection):
            response = serve(None)
    except GuardedWriteRefused:
        return None
    except Exception:
        if guard.row is None:
            return None
        raise
    if guard.row is None:
        return response if response.status_code == HTTPStatus.SERVICE_UNAVAILABLE else None
    _delete_old_writes_sometimes()
    row = _build_row_of_stored_key(guard.row, token, write)
    row.call = guard.call
    return response if _store_response_and_claim_call(row, response) else response.build_answer_for_others()  # type: ignore[attr-defined]


def build_write_name_from_key_or_random(token: ApiToken, key: str) -> str:
    """Name a write by its key; one without a key has a new name each time."""
    return hashlib.blake2b(f"{token.pk} {key}".encode(), digest_size=16).hexdigest() if key else uuid.uuid4().hex


def claim_call_of_keyless_write_or_replace_response(token: ApiToken, response: HttpResponse) -> HttpResponse:
    """Claim the call that a write without a key is told to run. Returns the answer."""
    call = getattr(response, "issued_call", None)
    if call is None or claim_issued_call_for_write(
        ApiWrite(token=token, key=uuid.uuid4().hex, status=response.status_code), call
    ):
        return response
    return response.build_answer_for_others()  # type: ignore[attr-defined,no-any-return]


def claim_issued_call_for_write(write: ApiWrite, call: int) -> bool:
    """Claim an issued call for a write. Returns False if another write was told to run it."""
    if write.call == call:
        return True
    write.call = call
    try:
        if write._state.adding:
            write.save()
        else:
            _execute_without_disk_sync(_UPDATE_SQL, [write.status, write.body, call, write.pk])
    except IntegrityError:
        write.call = None
        return False
    return True


def _get_or_create_write_row(token: ApiToken, write: KeyedWrite) -> tuple[ApiWrite, bool]:
    """Return the row of the key, and whether it was there before."""
    validate_id("Idempotency-Key", write.key)
    values = [token.pk, write.key, write.digest, connection.ops.adapt_datetimefield_value(clock.now())]
    if written := _execute_without_disk_sync(_NOTES[connection.vendor], values):
        return _build_row_of_stored_key(written[0], token, write), False
    return ApiWrite.objects.get(token=token, key=write.key), True


def _build_row_of_stored_key(number: int, token: ApiToken, write: KeyedWrite) -> ApiWrite:
    """Build the row of a key that has just been noted; `created_at` is not known."""
    return ApiWrite.from_db(DEFAULT_DB_ALIAS, _NOTE_FIELDS, [number, token.pk, write.key, write.digest, None, "", None])


def _store_response_and_claim_call(row: ApiWrite, response: HttpResponse) -> bool:
    """Store the answer, and claim the call that it tells to run. Returns False if another write has claimed it."""
    if response.status_code in _TRANSIENT_STATUSES or response.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return True
    body = response.content.decode() if getattr(response, "stored_with_key", False) else ""
    row.status, row.body = response.status_code, body if len(body) <= _MAX_STORED_CHARS else ""
    call: int | None = getattr(response, "issued_call", None)
    if call is not None and call != row.call:
        return claim_issued_call_for_write(row, call)
    if not row.body:  # a repetition builds its answer again
        return True
    if getattr(response, "found_again", False):
        _answers.write_later(row.pk, (row.status, row.body))
    else:
        _execute_without_disk_sync(_UPDATE_SQL, [row.status, row.body, row.call, row.pk])
    return True


def _store_answers_without_disk_sync(answers: Mapping[int, tuple[int, str]]) -> None:
    """Store answers in one statement, or a few if there are many."""
    rows = [(number, status, body) for number, (status, body) in answers.items()]
    for first in range(0, len(rows), _ANSWERS_OF_A_STATEMENT):
        batch = rows[first : first + _ANSWERS_OF_A_STATEMENT]
        values = ", ".join(["(%s, %s, %s)"] * len(batch))
        _execute_without_disk_sync(
            f"UPDATE {_TABLE} SET status = answer.column2, body = answer.column3 "  # noqa: S608
            f"FROM (VALUES {values}) AS answer WHERE {_TABLE}.id = answer.column1 RETURNING id",
            [value for row in batch for value in row],
        )


_answers: Final = DeferredWrites("answers of writes", _store_answers_without_disk_sync)


def _execute_without_disk_sync(statement: str, parameters: Sequence[Any]) -> tuple[Any, ...] | None:
    """Execute one statement, and commit without waiting for the disk. Returns the first row of its result.

    A key has to survive the end of a process, and the write itself is synced. After a loss of power a repetition is a
    new request, which the versions and fences of the library still refuse.
    """
    current = connections[DEFAULT_DB_ALIAS]
    is_sqlite = current.vendor == "sqlite" and not current.in_atomic_block
    with current.cursor() as cursor:
        if is_sqlite:
            current.connection.execute("PRAGMA synchronous=NORMAL")
        try:
            cursor.execute(statement + _WITHOUT_SYNC.get(current.vendor, ""), parameters)
            rows = cursor.fetchall()
        finally:
            if is_sqlite:
                current.connection.execute("PRAGMA synchronous=FULL")
    return rows[0] if rows else None


def attach_issued_call_to_response(
    response: HttpResponse, call: int, build_answer_for_others: Callable[[], HttpResponse]
) -> HttpResponse:
    """Let the answer tell its write to run a call.

    `build_answer_for_others` builds the answer if another write was told first.
    """
    response.issued_call = call  # type: ignore[attr-defined]
    response.build_answer_for_others = build_answer_for_others  # type: ignore[attr-defined]
    return response


def mark_response_as_finding_nothing(response: HttpResponse) -> HttpResponse:
    """Let the answer say that the write has found nothing to change, as after a repetition that was faster."""
    response.found_nothing = True  # type: ignore[attr-defined]
    return response


def mark_response_as_storable(response: HttpResponse, *, found_again: bool = False) -> HttpResponse:
    """Let the answer be stored with its key: it has no content of a session.

    With `found_again` a repetition without the stored answer builds the same one from what was written, so it may be
    stored a little later.
    """
    response.stored_with_key = True  # type: ignore[attr-defined]
    response.found_again = found_again  # type: ignore[attr-defined]
    return response
