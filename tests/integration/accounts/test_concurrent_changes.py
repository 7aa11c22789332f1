"""Concurrent changes by two people."""

import threading
from collections.abc import Callable

import pytest
from django.db import connection
from django.test import RequestFactory

from checkpoints.enums import ActorKind, Role
from checkpoints.models import Workspace
from harness_site.accounts import api_tokens, member_and_invitation_services
from harness_site.accounts.models import ApiToken, Invitation, Membership, TokenRole
from tests.support.audit_entries import list_entries
from tests.support.factories import make_user

REQUEST = RequestFactory().get("/")


def at_once(*acts: Callable[[], object]) -> list[str]:
    """Run functions concurrently; return `done` or the name of the error of each."""
    start = threading.Barrier(len(acts))
    ends: list[str] = []

    def run(act: Callable[[], object]) -> None:
        start.wait()
        try:
            act()
            ends.append("done")
        except Exception as error:
            ends.append(type(error).__name__)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(ends)


@pytest.fixture
def admins(workspace: Workspace) -> list[Membership]:
    return [
        Membership.objects.select_related("user", "workspace").get(
            user=make_user(name=name, role=Role.ADMIN, workspace=workspace)
        )
        for name in ("alice", "bob")
    ]


def test_two_admins_cannot_remove_each_other(admins: list[Membership]) -> None:
    alice, bob = admins
    ends = at_once(
        lambda: member_and_invitation_services.remove_member(alice, bob, request=REQUEST),
        lambda: member_and_invitation_services.remove_member(bob, alice, request=REQUEST),
    )
    assert ends == ["LastAdmin", "done"]
    assert Membership.objects.filter(role=Role.ADMIN).count() == 1


def test_member_is_removed_once(admins: list[Membership]) -> None:
    carol = Membership.objects.get(user=make_user(name="carol", role=Role.AUDITOR))
    ends = at_once(
        *[lambda one=one: member_and_invitation_services.remove_member(one, carol, request=REQUEST) for one in admins]
    )
    assert ends == ["MemberGone", "done"]
    assert len(list_entries("member_removed")) == 1


def test_two_admins_cannot_both_step_down(admins: list[Membership]) -> None:
    ends = at_once(
        *[
            lambda one=one: member_and_invitation_services.change_member_role(one, one, Role.AUDITOR, request=REQUEST)
            for one in admins
        ]
    )
    assert ends == ["LastAdmin", "done"]
    assert Membership.objects.filter(role=Role.ADMIN).count() == 1


def test_invitation_is_accepted_once(admins: list[Membership]) -> None:
    invitation, _ = member_and_invitation_services.create_invitation_with_secret(
        admins[0], Role.APPROVER, "", request=REQUEST
    )
    guests = [make_user(name=name, role=None) for name in ("carol", "dave", "erin")]
    ends = at_once(
        *[
            lambda guest=guest: member_and_invitation_services.accept_invitation(
                Invitation.objects.select_related("workspace").get(pk=invitation.pk), guest, request=REQUEST
            )
            for guest in guests
        ]
    )
    assert ends == ["InvitationClosed", "InvitationClosed", "done"]
    assert Membership.objects.filter(user__in=guests).count() == 1
    assert len(list_entries("member_added")) == 1


def test_token_name_is_used_once(workspace: Workspace) -> None:
    by = api_tokens.TokenIssuer(ActorKind.MACHINE, "test")
    make = [
        lambda: api_tokens.create_token_with_secret(workspace, name="ci", role=TokenRole.AGENT, lifetime=None, by=by)
        for _ in range(3)
    ]
    assert at_once(*make) == ["TokenNameTaken", "TokenNameTaken", "done"]
    assert ApiToken.objects.count() == 1


def test_token_is_revoked_once(workspace: Workspace) -> None:
    by = api_tokens.TokenIssuer(ActorKind.MACHINE, "test")
    token, _ = api_tokens.create_token_with_secret(workspace, name="ci", role=TokenRole.AGENT, lifetime=None, by=by)
    assert at_once(*[lambda: api_tokens.revoke_token(token, by=by)] * 3) == ["done"] * 3
    assert len(list_entries("token_revoked")) == 1
