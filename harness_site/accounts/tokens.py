"""API tokens: making them, revoking them, and finding out whose a request is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import IntegrityError, transaction
from django.db.models import Q

from checkpoints import clock
from checkpoints.enums import ActorKind, AuditKind
from checkpoints.models import AuditEvent, Workspace
from checkpoints.resuming.actors import Actor
from checkpoints.saving import audit
from harness_site.accounts import electorate, secrets
from harness_site.accounts.models import ApiToken, TokenRole

#: Also what secret scanners look for.
PREFIX: Final = "harness"
_HINT: Final = len(PREFIX) + 7
#: `last_used_at` is written when it is older than this: a busy token costs no write per request.
_SEEN: Final = timedelta(minutes=1)
#: The audit trail tells of a token's use, or of its being refused, once in this time.
_TOLD: Final = timedelta(hours=1)


class TokenNameTaken(Exception):
    def __init__(self, name: str) -> None:
        super().__init__(f"There is a token called “{name}” already. Revoke it first, or choose another name.")


class TokenRefused(Exception):
    """`reason` is one of `missing`, `malformed`, `unknown`, `revoked`, `expired`; a caller is told no more than 401."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"The token is {reason}.")


@dataclass(frozen=True)
class Maker:
    """Who makes or revokes a token, as the audit trail names them."""

    kind: ActorKind
    name: str
    address: str = ""

    def told(self, **details: Any) -> dict[str, Any]:
        return {**details, "address": self.address} if self.address else details


def create(
    workspace: Workspace, *, name: str, role: TokenRole, lifetime: timedelta | None, by: Maker
) -> tuple[ApiToken, str]:
    """A new token, and the secret itself, which is known only now. Raises `TokenNameTaken`."""
    secret = secrets.made(PREFIX)
    try:
        with transaction.atomic():
            token = ApiToken.objects.create(
                workspace=workspace,
                name=name,
                role=role,
                hint=secret[:_HINT],
                digest=secrets.digest(secret),
                created_by=by.name,
                expires_at=None if lifetime is None else clock.now() + lifetime,
            )
            _record(token, AuditKind.TOKEN_CREATED, by.kind, by.name, by.told(token=name, role=role))
    except IntegrityError as error:
        raise TokenNameTaken(name) from error
    return token, secret


def revoke(token: ApiToken, *, by: Maker) -> None:
    """It is refused from now on. One that was revoked stays as it is."""
    with transaction.atomic():
        if ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=clock.now()):
            _record(token, AuditKind.TOKEN_REVOKED, by.kind, by.name, by.told(token=token.name))


def authenticate(header: str, *, address: str = "") -> ApiToken:
    """The token of an `Authorization` header. Raises `TokenRefused`."""
    secret = _bearer(header)
    token = ApiToken.objects.filter(digest=secrets.digest(secret)).select_related("workspace").first()
    if token is None:
        raise TokenRefused("unknown")
    now = clock.now()
    if token.status != "active":
        _told_once(token, AuditKind.TOKEN_REFUSED, now, {"why": token.status, "address": address})
        raise TokenRefused(token.status)
    _seen(token, now, address)
    return token


def actor(token: ApiToken) -> Actor:
    """As decisions and the audit trail name it: “token nightly”, so that no person's name can be taken.

    Where several people have to agree, it has the voice of the person who made it.
    """
    return Actor(
        ActorKind.TOKEN,
        f"{electorate.TOKEN_PREFIX}{token.name}",
        token.member_role,
        owner=electorate.owner_of(token),
        electorate=electorate.electorate_of(token.workspace),
    )


def _bearer(header: str) -> str:
    if not header:
        raise TokenRefused("missing")
    scheme, _, secret = header.partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        raise TokenRefused("malformed")
    return secret.strip()


def _seen(token: ApiToken, now: datetime, address: str) -> None:
    """Of several requests at once, one writes."""
    before = token.last_used_at
    stale = Q(last_used_at=None) | Q(last_used_at__lt=now - _SEEN)
    if before is not None and before > now - _SEEN:
        return
    if ApiToken.objects.filter(stale, pk=token.pk).update(last_used_at=now):
        token.last_used_at = now
        _told_once(token, AuditKind.TOKEN_USED, now, {"address": address})


def _told_once(token: ApiToken, kind: AuditKind, now: datetime, details: dict[str, Any]) -> None:
    name = actor(token).name
    recent = AuditEvent.objects.filter(workspace=token.workspace_id, kind=kind, actor=name, created_at__gt=now - _TOLD)
    if not recent.exists():
        _record(token, kind, ActorKind.TOKEN, name, {"token": token.name, **details})


def _record(token: ApiToken, kind: AuditKind, actor_kind: ActorKind, name: str, details: dict[str, Any]) -> None:
    audit.append("default", token.workspace_id, kind, actor=name, actor_kind=actor_kind, details=details)
