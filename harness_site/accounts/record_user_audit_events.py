"""Audit events of the site's users: names, ids and addresses, never typed text."""

from collections.abc import Iterable
from typing import Any, Final

from allauth.account.adapter import get_adapter
from allauth.account.internal.flows.login import get_authentication_records
from django.contrib.auth.models import User
from django.http import HttpRequest

from checkpoints.audit import insert_unchained_events
from checkpoints.constants import DEFAULT_WORKSPACE
from checkpoints.enums import ActorKind, AuditKind
from checkpoints.models import Workspace
from harness_site.accounts.models import Membership

#: Actor of attempts with an unknown name. The name is not stored: it may be a password in the wrong field.
NOBODY: Final = "unknown"
_METHODS: Final = {"password": "password", "socialaccount": "single sign-on", "link": "sign-in link"}


def find_client_address(request: HttpRequest) -> str:
    """Find the IP address of the client of a request, as entries of the audit trail name it."""
    address: str = get_adapter().get_client_ip(request)
    return address


def record_member_event(
    membership: Membership, kind: AuditKind, *, request: HttpRequest, session_pk: int | None = None, **details: Any
) -> None:
    """Record an event of a member in their workspace."""
    _append_person_event_in_workspaces(
        [membership.workspace_id], kind, membership.user.get_username(), request, [session_pk], details
    )


def record_excerpts_shown(membership: Membership, sessions: Iterable[int], *, request: HttpRequest, page: str) -> None:
    """Record that a page displayed parts of several sessions to a member."""
    _append_person_event_in_workspaces(
        [membership.workspace_id],
        AuditKind.EXCERPTED,
        membership.user.get_username(),
        request,
        sessions,
        {"page": page},
    )


def record_account_event(user: User, kind: AuditKind, *, request: HttpRequest, **details: Any) -> None:
    """Record an event about a user's own account in every workspace they belong to."""
    workspaces = Membership.objects.filter(user=user).order_by("workspace_id").values_list("workspace_id", flat=True)
    _append_person_event_in_workspaces(workspaces, kind, user.get_username(), request, [None], details)


def record_login(request: HttpRequest, user: User) -> None:
    records = get_authentication_records(request, user)
    methods = [_METHODS.get(record["method"], record.get("type", record["method"])) for record in records]
    record_account_event(user, AuditKind.SIGNED_IN, request=request, methods=", ".join(dict.fromkeys(methods)))


def record_failed_login(request: HttpRequest, *, name: str, why: str = "password") -> None:
    """Record a failed login in the workspaces of the account, or in the first workspace for an unknown name."""
    user = User.objects.filter(username__iexact=name.strip()).order_by("pk").first() if "\0" not in name else None
    if user is not None and user.memberships.exists():
        record_account_event(user, AuditKind.SIGN_IN_FAILED, request=request, why=why)
        return
    first_workspace = Workspace.objects.filter(slug=DEFAULT_WORKSPACE).values_list("pk", flat=True)
    actor = NOBODY if user is None else user.get_username()
    _append_person_event_in_workspaces(first_workspace, AuditKind.SIGN_IN_FAILED, actor, request, [None], {"why": why})


def _append_person_event_in_workspaces(
    workspaces: Iterable[int],
    kind: AuditKind,
    actor: str,
    request: HttpRequest,
    sessions: Iterable[int | None],
    details: dict[str, Any],
) -> None:
    address = find_client_address(request)
    for workspace in workspaces:
        insert_unchained_events.record_event_for_each_session(
            "default",
            workspace,
            kind,
            sessions,
            actor=actor,
            actor_kind=ActorKind.PERSON,
            details={**details, "address": address},
        )
