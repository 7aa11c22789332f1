"""API tokens: create, revoke, authenticate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from threading import Lock
from typing import Any, Final

from django.db import IntegrityError, connection, transaction
from django.db.models import Q
from django.utils.translation import gettext as _

from checkpoints.audit import insert_unchained_events
from checkpoints.db import clock
from checkpoints.decisions.actors import Actor
from checkpoints.enums import ActorKind, AuditKind
from checkpoints.models import AuditEvent, Workspace
from harness_site.accounts import generate_and_digest_secrets, map_decisions_to_eligible_votes
from harness_site.accounts.models import ApiToken, TokenRole
from harness_site.core.deferred_writes import DeferredWrites

#: Prefix of every token; secret scanners search for it.
PREFIX: Final = "harness"
_HINT: Final = len(PREFIX) + 7
#: Interval of updates of `last_used_at`: a busy token does not cause a write per request.
_LAST_USED_UPDATE_INTERVAL: Final = timedelta(minutes=1)
#: Attributes of a token, with its key first, and the statement that reads them.
FIELDS: Final = [field.attname for field in ApiToken._meta.concrete_fields]
SELECT: Final = f"SELECT {', '.join(FIELDS)} FROM {ApiToken._meta.db_table} WHERE digest = %s"  # noqa: S608
ReadRow = Callable[[str], tuple[Any, ...] | None]
#: Statement that has a row if a token is valid at a time, and still has the role and the workspace that are known.
IS_VALID: Final = (
    f"SELECT 1 FROM {ApiToken._meta.db_table} WHERE digest = %s AND role = %s AND workspace_id = %s "  # noqa: S608
    "AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > %s)"
)
#: Number of tokens whose values are remembered.
_REMEMBERED: Final = 1_000
#: Interval in which the use or the refusal of a token is recorded in the audit trail once.
_AUDIT_INTERVAL: Final = timedelta(hours=1)


class TokenNameTaken(Exception):
    def __init__(self, name: str) -> None:
        super().__init__(
            _("A token named “%(name)s” already exists. Revoke it first, or choose another name.") % {"name": name}
        )


class TokenRefused(Exception):
    """Authentication failure; the caller only gets 401.

    `reason` is `missing`, `malformed`, `unknown`, `revoked` or `expired`.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"The token is {reason}.")


@dataclass(frozen=True)
class TokenIssuer:
    """Actor who creates or revokes a token, as named in the audit trail."""

    kind: ActorKind
    name: str
    address: str = ""

    def build_event_details_with_address(self, **details: Any) -> dict[str, Any]:
        return {**details, "address": self.address} if self.address else details


def is_token_name_taken(workspace: Workspace, name: str) -> bool:
    """Return whether a token of this name exists that is not revoked."""
    return ApiToken.objects.filter(workspace=workspace, name=name, revoked_at=None).exists()


def create_token_with_secret(
    workspace: Workspace, *, name: str, role: TokenRole, lifetime: timedelta | None, by: TokenIssuer
) -> tuple[ApiToken, str]:
    """Create a token and return it with its secret, which is not stored. Raises `TokenNameTaken`."""
    secret = generate_and_digest_secrets.generate_secret(PREFIX)
    try:
        with transaction.atomic():
            token = ApiToken.objects.create(
                workspace=workspace,
                name=name,
                role=role,
                hint=secret[:_HINT],
                digest=generate_and_digest_secrets.compute_secret_digest(secret),
                created_by=by.name,
                expires_at=None if lifetime is None else clock.now() + lifetime,
            )
            _record_token_event(
                token,
                AuditKind.TOKEN_CREATED,
                by.kind,
                by.name,
                by.build_event_details_with_address(token_name=name, role=role),
            )
    except IntegrityError as error:
        raise TokenNameTaken(name) from error
    return token, secret


def revoke_token(token: ApiToken, *, by: TokenIssuer) -> None:
    """Revoke a token; do nothing if it is revoked already."""
    with transaction.atomic():
        if ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=clock.now()):
            details = by.build_event_details_with_address(token_name=token.name)
            _record_token_event(token, AuditKind.TOKEN_REVOKED, by.kind, by.name, details)


def read_token_row(digest: str) -> tuple[Any, ...] | None:
    """Read the `FIELDS` of the token with a digest."""
    with connection.cursor() as cursor:
        cursor.execute(SELECT, [digest])
        row: tuple[Any, ...] | None = cursor.fetchone()
    return row


def authenticate_bearer_header_or_raise(
    header: str,
    *,
    find_address: Callable[[], str] = str,
    read_token_row: ReadRow = read_token_row,
) -> ApiToken:
    """Return the token of an `Authorization` header. Raises `TokenRefused`.

    `find_address` returns the address of the client; it is called where the audit trail records it. `read_token_row`
    reads the `FIELDS` of the token with a digest, where one statement does more than that.
    """
    row = read_token_row(generate_and_digest_secrets.compute_secret_digest(_parse_bearer_token_or_raise(header)))
    token = None if row is None else _build_and_cache_token_from_row(row)
    if token is None:
        raise TokenRefused("unknown")
    now = clock.now()
    if token.status != "active":
        _record_token_event_once_per_hour(
            token, AuditKind.TOKEN_REFUSED, now, {"why": token.status, "address": find_address()}
        )
        raise TokenRefused(token.status)
    _queue_token_use_record(token, now, find_address)
    return token


def _build_and_cache_token_from_row(row: tuple[Any, ...]) -> ApiToken | None:
    """Build a token from its row. Every request reads the row, whose values are converted again if it has changed."""
    values = _load_token_field_values_cached(row)
    if values is None:
        return None
    token = ApiToken.from_db("default", FIELDS, values)
    with _lock:
        _values_by_digest[token.digest] = values
        while len(_values_by_digest) > _REMEMBERED:
            del _values_by_digest[next(iter(_values_by_digest))]
    return token


def find_cached_active_token_of_header(header: str) -> ApiToken | None:
    """Return the token of an `Authorization` header as this process has last read it, if it was valid then.

    The token may be changed, revoked or deleted since: it still has to be authenticated.
    """
    try:
        values = _values_by_digest.get(
            generate_and_digest_secrets.compute_secret_digest(_parse_bearer_token_or_raise(header))
        )
    except TokenRefused:
        return None
    token = None if values is None else ApiToken.from_db("default", FIELDS, values)
    return token if token is not None and token.status == "active" else None


@lru_cache(maxsize=_REMEMBERED)
def _load_token_field_values_cached(row: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Load the values of a row that was read as the database has it."""
    return ApiToken.objects.filter(pk=row[0]).values_list(*FIELDS).first()


def build_token_actor(token: ApiToken, *, address: str = "") -> Actor:
    """Build the actor of a token, for example “token nightly”, which cannot be mistaken for a person.

    Where several people have to agree, it counts as the person who created it. `address` is that of the client.
    """
    return Actor(
        ActorKind.TOKEN,
        f"{map_decisions_to_eligible_votes.TOKEN_PREFIX}{token.name}",
        token.equivalent_member_role,
        owner=map_decisions_to_eligible_votes.get_token_owner_name_or_empty(token),
        electorate=map_decisions_to_eligible_votes.build_eligible_vote_mapper(token.workspace),
        address=address,
    )


def _parse_bearer_token_or_raise(header: str) -> str:
    if not header:
        raise TokenRefused("missing")
    scheme, _, secret = header.partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        raise TokenRefused("malformed")
    return secret.strip()


def is_recent_use_recorded(token: ApiToken, now: datetime) -> bool:
    """Return True if a use of the token has been recorded so recently that this one need not be."""
    return token.last_used_at is not None and token.last_used_at > now - _LAST_USED_UPDATE_INTERVAL


def _queue_token_use_record(token: ApiToken, now: datetime, find_address: Callable[[], str]) -> None:
    """Record the use of a token a little later, in no request's time."""
    if not is_recent_use_recorded(token, now):
        _uses.write_later(token.pk, (token, now, find_address()))


def _write_and_audit_token_uses(uses: Mapping[int, tuple[ApiToken, datetime, str]]) -> None:
    """Write the use of each token; of several processes, one does."""
    for token, now, address in uses.values():
        is_stale = Q(last_used_at=None) | Q(last_used_at__lt=now - _LAST_USED_UPDATE_INTERVAL)
        if ApiToken.objects.filter(is_stale, pk=token.pk).update(last_used_at=now):
            _record_token_event_once_per_hour(token, AuditKind.TOKEN_USED, now, {"address": address})


def _record_token_event_once_per_hour(token: ApiToken, kind: AuditKind, now: datetime, details: dict[str, Any]) -> None:
    name = build_token_actor(token).name
    recent_events = AuditEvent.objects.filter(
        workspace=token.workspace_id, kind=kind, actor=name, created_at__gt=now - _AUDIT_INTERVAL
    )
    if not recent_events.exists():
        _record_token_event(token, kind, ActorKind.TOKEN, name, {"token_name": token.name, **details})


def _record_token_event(
    token: ApiToken, kind: AuditKind, actor_kind: ActorKind, name: str, details: dict[str, Any]
) -> None:
    insert_unchained_events.record_event_of_workspace(
        "default", token.workspace_id, kind, actor=name, actor_kind=actor_kind, details=details
    )


_uses: Final = DeferredWrites("uses of tokens", _write_and_audit_token_uses)
_lock: Final = Lock()
_values_by_digest: Final[dict[str, tuple[Any, ...]]] = {}
