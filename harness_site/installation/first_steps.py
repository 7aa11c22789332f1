"""First steps of an installation, from an empty database to the first session of an agent."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urlencode

from django.db.models import Q
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _

from checkpoints.models import Decision, Session, Workspace
from harness_site.accounts.models import Membership
from harness_site.accounts.permissions import MemberRequest
from harness_site.installation.agent_connection_examples import find_connection_of_session
from harness_site.installation.database_readiness import probe
from harness_site.installation.failed_test_mail_in_user_session import format_failed_mail_test
from harness_site.installation.installation_checks import (
    Level,
    Status,
    get_database_status,
    get_mail_server_status,
    get_mail_settings_status,
    get_migration_status,
    get_second_factor_status,
    get_site_address_status,
)
from harness_site.notifications.record_mail_server_acceptance import has_mail_server_accepted_message

#: Sessions that were read from files: no program has sent them. The metadata is canonical JSON.
_READ_FROM_FILES: Final = Q(metadata__contains='"import":{') & Q(metadata__contains='"file":"')


@dataclass(frozen=True)
class Step:
    """One step: `summary` says what is set or missing, `url` leads to where it is done."""

    title: str
    done: bool
    summary: str
    url: str
    action: str


def find_oldest_session(workspace: Workspace) -> Session | None:
    """Return the oldest session of a workspace; None until an agent has opened one."""
    return Session.objects.filter(workspace=workspace).order_by("pk").first()


def find_newest_session_key(workspace: Workspace) -> int:
    """Return the primary key of the newest session of a workspace; 0 if there is none."""
    return Session.objects.filter(workspace=workspace).order_by("-pk").values_list("pk", flat=True).first() or 0


def find_session_of_program_or_any_newer(
    workspace: Workspace, session_id: str, agent: str, newer_than: int | None
) -> Session | None:
    """Return the session of a program of the page, or any session that a program has sent since the page was opened.

    The program is known by the id of its session, or by the name of its agent where `session_id` is empty.
    `newer_than` is the primary key of the session that was the newest when the page was opened; None if it is new.
    """
    sessions = Session.objects.filter(workspace=workspace).order_by("pk")
    sent = sessions.exclude(_READ_FROM_FILES)
    own = sessions.filter(session_id=session_id) if session_id else sent.filter(agent=agent)
    return own.first() or (None if newer_than is None else sent.filter(pk__gt=newer_than).first())


def list_first_steps(request: MemberRequest) -> list[Step]:
    """List the steps with their state, in the order in which to do them."""
    return [
        _build_admin_second_factor_step(request),
        _build_status_step(get_site_address_status(request)),
        _build_database_step(),
        _build_mail_step(request),
        _build_agent_step(request.membership.workspace),
    ]


def has_open_steps(request: HttpRequest, member: Membership) -> bool:
    """Return whether a step is left; stops at the first one, and asks the settings before the database."""
    return not (
        _is_status_ok(get_mail_settings_status())
        and _is_status_ok(get_site_address_status(request))
        and _is_status_ok(get_second_factor_status(member.user))
        and find_oldest_session(member.workspace) is not None
        and probe.find_problem() is None
        and has_mail_server_accepted_message()
    )


def _is_status_ok(status: Status) -> bool:
    return status.level is Level.OK


def _build_admin_second_factor_step(request: MemberRequest) -> Step:
    status = get_second_factor_status(request.membership.user)
    if _is_status_ok(status):
        return Step(_("Administrator"), True, status.summary, reverse("harness_accounts:account"), _("Change"))
    return Step(_("Administrator"), False, status.summary, reverse("mfa_activate_totp"), _("Add second factor"))


def _build_status_step(status: Status) -> Step:
    done = _is_status_ok(status)
    url = f"{reverse('harness_installation:system')}#{status.key}"
    # Advice that ends with a line to copy stands on the system page, beside that line.
    summary = status.summary if done or status.line or not status.advice else f"{status.summary} {status.advice}"
    return Step(status.title, done, summary, url, _("Details") if done else _("Set up"))


def _build_mail_step(request: HttpRequest) -> Step:
    """The step of mail is done once a mail server has accepted a message: settings alone do not show that it does."""
    step = _build_status_step(get_mail_server_status())
    if hint := format_failed_mail_test(request):
        step = replace(step, summary=f"{step.summary} {hint}")
    if not step.done and _is_status_ok(get_mail_settings_status()):
        return replace(step, action=_("Test mail"))
    return step


def _build_database_step() -> Step:
    database, migrations = get_database_status(), get_migration_status()
    done = Level.PROBLEM not in (database.level, migrations.level)
    url = f"{reverse('harness_installation:system')}#database"
    return Step(database.title, done, f"{database.summary} {migrations.summary}", url, _("Details"))


def _build_agent_step(workspace: Workspace) -> Step:
    session = find_oldest_session(workspace)
    url = reverse("harness_installation:connect")
    if session is None:
        return Step(_("First agent"), False, _("Connect one with the program on this page."), url, _("Connect"))
    if not Decision.objects.filter(session__workspace=workspace).exists():
        query = urlencode({"how": find_connection_of_session(session).key, "after": 0})
        summary = _("The first session has arrived. Next: decide about a call of another program.")
        return Step(_("First agent"), True, summary, f"{url}?{query}#first-session", _("Show the program"))
    return Step(_("First agent"), True, _("The first session has arrived."), url, _("Connect another"))
