"""What people do on the site, for the audit trail. Names, ids and addresses; never what was typed."""

from collections.abc import Iterable
from typing import Any, Final

from allauth.account.adapter import get_adapter
from allauth.account.internal.flows.login import get_authentication_records
from django.contrib.auth.models import User
from django.http import HttpRequest

from checkpoints.enums import ActorKind, AuditKind
from checkpoints.models import DEFAULT_WORKSPACE, Workspace
from checkpoints.saving import audit
from harness_site.accounts.models import Membership

#: Who tried a name that nobody has. That name is not kept: it may be a password typed one field too early.
NOBODY: Final = "unknown"
_METHODS: Final = {"password": "password", "socialaccount": "single sign-on"}


def record(
    membership: Membership, kind: AuditKind, *, request: HttpRequest, session_pk: int | None = None, **details: Any
) -> None:
    """What a member did in their workspace."""
    _append([membership.workspace_id], kind, membership.user.get_username(), request, [session_pk], details)


def excerpted(membership: Membership, sessions: Iterable[int], *, request: HttpRequest, page: str) -> None:
    """That a page showed a member parts of what was said in several sessions."""
    _append(
        [membership.workspace_id],
        AuditKind.EXCERPTED,
        membership.user.get_username(),
        request,
        sessions,
        {"page": page},
    )


def personal(user: User, kind: AuditKind, *, request: HttpRequest, **details: Any) -> None:
    """What somebody did about their own account: it concerns every workspace they are in."""
    workspaces = Membership.objects.filter(user=user).order_by("workspace_id").values_list("workspace_id", flat=True)
    _append(workspaces, kind, user.get_username(), request, [None], details)


def signed_in(request: HttpRequest, user: User) -> None:
    records = get_authentication_records(request, user)
    methods = [_METHODS.get(record["method"], record.get("type", record["method"])) for record in records]
    personal(user, AuditKind.SIGNED_IN, request=request, methods=", ".join(dict.fromkeys(methods)))


def sign_in_failed(request: HttpRequest, *, name: str, why: str = "password") -> None:
    """An attempt with the name of an account is told to its workspaces, any other to the first workspace."""
    user = User.objects.filter(username__iexact=name.strip()).order_by("pk").first() if "\0" not in name else None
    if user is not None and user.memberships.exists():
        personal(user, AuditKind.SIGN_IN_FAILED, request=request, why=why)
        return
    first = Workspace.objects.filter(slug=DEFAULT_WORKSPACE).values_list("pk", flat=True)
    actor = NOBODY if user is None else user.get_username()
    _append(first, AuditKind.SIGN_IN_FAILED, actor, request, [None], {"why": why})


def _append(
    workspaces: Iterable[int],
    kind: AuditKind,
    actor: str,
    request: HttpRequest,
    sessions: Iterable[int | None],
    details: dict[str, Any],
) -> None:
    address = get_adapter().get_client_ip(request)
    for workspace in workspaces:
        audit.append_many(
            "default",
            workspace,
            kind,
            sessions,
            actor=actor,
            actor_kind=ActorKind.PERSON,
            details={**details, "address": address},
        )
