"""Checks of this installation. Each returns one `Status`: what is the case, and what to do about it.

The system page shows all of them, the first steps some, so that both always agree.
"""

from __future__ import annotations

import platform
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from email.utils import parseaddr
from enum import StrEnum
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import django
from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.db import Error, connection
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest
from django.template.defaultfilters import filesizeformat
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from checkpoints import __version__
from checkpoints.db import clock
from checkpoints.enums import HOOK_KINDS, OWNING_RUN_STATUSES, ActorKind
from checkpoints.exceptions import SealError
from checkpoints.models import Decision, Run, Session, Workspace
from checkpoints.seals.decision_keys import get_decision_keys
from checkpoints.seals.seal_keys import get_seal_keys
from checkpoints.seals.witness import get_witness
from harness_site.accounts.permissions import MemberRequest
from harness_site.accounts.second_factor_holders_and_requirements import has_second_factor
from harness_site.core.background_task import list_running_task_states
from harness_site.core.management_command_as_typed import prefix_management_command_with_program
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden
from harness_site.installation.database_readiness import load_schema_state
from harness_site.installation.failed_test_mail_in_user_session import format_failed_mail_test
from harness_site.mail_settings import Security
from harness_site.notifications.delivery_log_and_retry import query_webhooks_with_last_attempt
from harness_site.notifications.models import Delivery, DeliveryStatus, Event, Webhook
from harness_site.notifications.record_mail_server_acceptance import has_mail_server_accepted_message
from harness_site.search.index_status import load_index_status
from harness_site.site_address import LOCAL_HOSTS, describe_address_problem, is_address_configured

#: A round that ended longer ago than this is late: the slowest task waits five seconds between rounds.
_LATE: Final = timedelta(minutes=1)
#: Age of a due message that nobody has tried to send.
_STUCK: Final = timedelta(minutes=5)
#: Number of texts not indexed yet above which the search misses a noticeable part.
_BEHIND: Final = 1000
_CLOCK_WARNING: Final = timedelta(seconds=2)
_DISK_WARNING: Final = (0.10, 2 * 1024**3)
_DISK_ALARM: Final = (0.03, 512 * 1024**2)
_COUNTED: Final = 100
#: Number of the oldest and of the newest sessions that are looked at for a missing seal.
_EXAMINED_SESSIONS: Final = 1000


class Level(StrEnum):
    """Result of a check; the value is the style class of its chip."""

    OK = "ok"
    ATTENTION = "wait"
    PROBLEM = "bad"
    OFF = "off"

    @property
    def label(self) -> str:
        return str(_LABELS[self])


_LABELS: Final[dict[Level, Promise]] = {
    Level.OK: gettext_lazy("OK"),
    Level.ATTENTION: gettext_lazy("Attention"),
    Level.PROBLEM: gettext_lazy("Problem"),
    Level.OFF: gettext_lazy("Not set up"),
}


#: What the background tasks do, by the names that the log has.
_TASK_LABELS: Final = {
    "live-feed": gettext_lazy("live updates"),
    "sweeper": gettext_lazy("sweeper"),
    "indexer": gettext_lazy("search index"),
    "deliverer": gettext_lazy("messages"),
}


@dataclass(frozen=True)
class Status:
    """Result of one check: `summary` says what is the case, `advice` what to do, `line` is a setting to copy.

    `hint` says what has happened once, and leaves `level` as it is.
    """

    key: str
    title: str
    level: Level
    summary: str
    advice: str = ""
    line: str = ""
    hint: str = ""


def run_installation_checks(request: MemberRequest, workspace: Workspace) -> list[Status]:
    """Run every check. One that fails is reported as a problem and does not hide the others."""
    checks: list[tuple[str, str, Callable[[], Status]]] = [
        ("version", _("Version"), get_version_status),
        ("database", _("Database"), get_database_status),
        ("migrations", _("Migrations"), get_migration_status),
        ("address", _("Address of this site"), lambda: get_site_address_status(request)),
        ("mail", _("Mail"), lambda: _get_mail_status_of_workspace(request, workspace)),
        ("second-factor", _("Second factor"), lambda: get_second_factor_status(request.membership.user)),
        ("webhooks", _("Notifications"), lambda: get_message_delivery_status(workspace)),
        ("background", _("Sweeper and background work"), get_background_work_status),
        ("leases", _("Leases"), get_run_lease_status),
        ("search", _("Search index"), get_search_index_status),
        ("quarantine", _("Quarantine"), lambda: get_quarantine_status(workspace)),
        ("seals", _("Seals"), get_seal_status),
        ("decisions", _("Signed decisions"), get_decision_signature_status),
        ("anchor", _("Anchor of the audit trail"), build_audit_anchor_status),
        ("clock", _("Clock"), get_database_clock_status),
        ("disk", _("Disk"), get_disk_space_status),
    ]
    return [_run_check_or_report_failure(key, title, check) for key, title, check in checks]


def get_second_factor_status(user: AbstractBaseUser) -> Status:
    """Report whether the reader, an admin, has a second factor. The first steps ask for it by this status, too."""
    title = _("Second factor")
    values = {"name": user.get_username()}
    if has_second_factor(user):
        return Status("second-factor", title, Level.OK, _("%(name)s has a second factor.") % values)
    summary = _("%(name)s has no second factor yet. A stolen password is enough to sign in.") % values
    return Status("second-factor", title, Level.OFF, summary)


def get_version_status() -> Status:
    values = {"version": __version__, "django": django.get_version(), "python": platform.python_version()}
    summary = _("Harness %(version)s, Django %(django)s, Python %(python)s.") % values
    if settings.DEBUG:
        advice = _(
            "Error pages show source code to everybody. Unset HARNESS_DEBUG, or set DEBUG to False in the settings of "
            "your project, and restart the site."
        )
        return Status("version", _("Version"), Level.PROBLEM, summary, advice)
    return Status("version", _("Version"), Level.OK, summary)


def get_database_status() -> Status:
    name, size = read_database_version_and_size()
    summary = _("%(database)s, %(size)s.") % {"database": name, "size": filesizeformat(size)}
    advice = ""
    if connection.vendor == "sqlite":
        advice = _("SQLite serves one machine. For agents on several machines, set HARNESS_DATABASE_URL to PostgreSQL.")
    return Status("database", _("Database"), Level.OK, summary, advice)


def read_database_version_and_size() -> tuple[str, int]:
    """Return product and version of the database, and its size in bytes."""
    if connection.vendor == "sqlite":
        path = Path(str(connection.settings_dict["NAME"]))
        files = [file for file in (path, Path(f"{path}-wal")) if file.exists()]
        return f"SQLite {sqlite3.sqlite_version}", sum(file.stat().st_size for file in files)
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('server_version'), pg_database_size(current_database())")
        version, size = cursor.fetchone()
    return f"PostgreSQL {version.split()[0]}", int(size)


def get_migration_status() -> Status:
    state = load_schema_state()
    title = _("Migrations")
    if state.missing:
        summary = ngettext(
            "%(count)d migration is not applied: %(names)s.",
            "%(count)d migrations are not applied: %(names)s.",
            len(state.missing),
        ) % {"count": len(state.missing), "names": ", ".join(state.missing[:5])}
        command = prefix_management_command_with_program("migrate")
        return Status("migrations", title, Level.PROBLEM, summary, _("Apply them, then restart."), command)
    if state.unknown:
        summary = _("The database has migrations that this version does not know: %(names)s.") % {
            "names": ", ".join(state.unknown[:5])
        }
        advice = _("A newer version has used this database. Install that version here too.")
        return Status("migrations", title, Level.PROBLEM, summary, advice)
    summary = ngettext("%(count)d migration applied.", "All %(count)d migrations applied.", state.applied)
    return Status("migrations", title, Level.OK, summary % {"count": state.applied})


def get_site_address_status(request: HttpRequest) -> Status:
    """Compare the configured address with the one that the browser has used."""
    title, address = _("Address of this site"), settings.SITE_ADDRESS
    used = f"{request.scheme}://{request.get_host()}"
    line = f"export HARNESS_ADDRESS={used}"
    if problem := describe_address_problem(address):
        summary = _("%(address)s cannot be used for links: %(problem)s.") % {"address": address, "problem": problem}
        return Status("address", title, Level.PROBLEM, summary, _("Set this variable and restart the site:"), line)
    if not is_address_configured():
        guessed = _("The address is not set. Links in messages begin with %(address)s, which is a guess.")
        advice = _("Your browser uses %(used)s. If others can use it too, set this variable and restart the site:")
        summary = guessed % {"address": address}
        return Status("address", title, Level.ATTENTION, summary, advice % {"used": used}, line)
    if address != used:
        summary = _("%(address)s, but your browser uses %(used)s.") % {"address": address, "used": used}
        advice = _(
            "Links in messages lead to the first address. If it is wrong, set this variable and restart the site. "
            "If a proxy changes the scheme, set HARNESS_BEHIND_PROXY=1."
        )
        return Status("address", title, Level.ATTENTION, summary, advice, line)
    host = urlsplit(address).netloc.rpartition(":")[0] or urlsplit(address).netloc
    if urlsplit(address).scheme == "http" and host not in LOCAL_HOSTS:
        summary = _("%(address)s, reached from your browser without encryption.") % {"address": address}
        advice = _("Passwords can be read on the way. Put a proxy with HTTPS in front, then set this variable:")
        return Status("address", title, Level.ATTENTION, summary, advice, "export HARNESS_HTTPS=1")
    if urlsplit(address).scheme == "https" and not settings.SESSION_COOKIE_SECURE:
        summary = _("%(address)s, but cookies are also sent without encryption.") % {"address": address}
        return Status(
            "address",
            title,
            Level.ATTENTION,
            summary,
            _("Set this variable and restart the site:"),
            "export HARNESS_HTTPS=1",
        )
    return Status("address", title, Level.OK, _("%(address)s, reached from your browser.") % {"address": address})


_SENDER_LINE: Final = 'export HARNESS_EMAIL_FROM="Harness <harness@example.org>"'


def get_mail_settings_status() -> Status:
    title, server = _("Mail"), settings.MAIL_SERVER
    if server is None:
        summary = _("No mail server is set up. Until then, people see what waits for them only on this site.")
        line = "export HARNESS_EMAIL_URL=smtp+starttls://user:password@mail.example.org:587"
        if _is_mail_sender_at_domain_name():
            advice = _("Set this variable with the values of your mail server, and restart the site:")
            return Status("mail", title, Level.OFF, summary, advice, line)
        advice = _("Set these variables to your mail server and the sender of its messages, and restart the site:")
        return Status("mail", title, Level.OFF, summary, advice, f"{line}\n{_SENDER_LINE}")
    if server.security is Security.CONSOLE:
        summary = _("Messages are printed in the terminal of the server instead of being sent.")
        return Status("mail", title, Level.ATTENTION, summary, _("Set HARNESS_EMAIL_URL to send them."))
    values = {"host": server.host, "port": server.port, "sender": settings.MAIL_FROM}
    if server.host not in LOCAL_HOSTS and not _is_mail_sender_at_domain_name():
        summary = (
            _("Through %(host)s, port %(port)s, without a sender address that other mail servers accept.") % values
        )
        advice = _("Set this variable to an address from which your mail server may send, and restart the site:")
        return Status("mail", title, Level.ATTENTION, summary, advice, _SENDER_LINE)
    summary = _("Through %(host)s, port %(port)s, from %(sender)s.") % values
    if server.security is Security.PLAIN and server.user and server.host not in LOCAL_HOSTS:
        advice = _("The password travels without encryption. Use smtp+starttls:// or smtps:// in HARNESS_EMAIL_URL.")
        return Status("mail", title, Level.ATTENTION, summary, advice)
    if not _is_mail_sender_at_domain_name():
        advice = _("If messages leave this machine, set this variable to the address that they come from:")
        return Status("mail", title, Level.OK, summary, advice, _SENDER_LINE)
    return Status("mail", title, Level.OK, summary)


def _is_mail_sender_at_domain_name() -> bool:
    """Return whether the address of the sender has a domain name, not the name or IP address of one host."""
    sender_host = parseaddr(settings.MAIL_FROM)[1].rpartition("@")[2]
    return "." in sender_host.rstrip("0123456789.")


def get_mail_server_status() -> Status:
    """Check the settings of the mail server, and whether it has accepted a message: settings alone do not show that."""
    status = get_mail_settings_status()
    if status.level is not Level.OK or has_mail_server_accepted_message():
        return status
    summary = _("%(settings)s The mail server has not accepted a message yet. Send a test message.")
    return replace(status, level=Level.ATTENTION, summary=summary % {"settings": status.summary})


def get_mail_delivery_status() -> Status:
    """Check the mail server and its settings, and whether the newest message of the last day was sent."""
    status = get_mail_settings_status()
    attempted = Delivery.objects.filter(webhook=None, attempted_at__gt=clock.now() - timedelta(days=1))
    newest = attempted.order_by("-attempted_at").values("status", "problem").first()
    failed = newest is not None and newest["status"] in (DeliveryStatus.WAITING, DeliveryStatus.GIVEN_UP)
    if newest is None or not failed or settings.MAIL_SERVER is None:
        return get_mail_server_status()
    summary = _("%(settings)s The newest message was not sent.") % {"settings": status.summary}
    return replace(status, level=Level.PROBLEM, summary=summary, advice=newest["problem"])


def _get_mail_status_of_workspace(request: HttpRequest, workspace: Workspace) -> Status:
    """Check mail; without a server it wants attention as long as no webhook tells anybody either."""
    status = replace(get_mail_delivery_status(), hint=format_failed_mail_test(request))
    if settings.MAIL_SERVER is not None or Webhook.objects.filter(workspace=workspace).exists():
        return status
    summary = _("There is no mail server and no webhook. Nobody is told about calls that wait for a decision.")
    return replace(status, level=Level.ATTENTION, summary=summary)


def get_message_delivery_status(workspace: Workspace) -> Status:
    """Report given-up and stuck messages of the last day, to webhooks and to people.

    A test that was given up is none of them, because nobody missed anything. A webhook whose last message failed wants
    attention before messages are given up.
    """
    title, now = _("Notifications"), clock.now()
    count = Webhook.objects.filter(workspace=workspace).count()
    deliveries = Delivery.objects.filter(notice__workspace=workspace)
    given_up = deliveries.filter(status=DeliveryStatus.GIVEN_UP, attempted_at__gt=now - timedelta(days=1))
    given_up_count = len(given_up.exclude(notice__event=Event.TEST).values_list("pk")[:_COUNTED])
    waiting = deliveries.filter(status=DeliveryStatus.WAITING, webhook__paused_at=None, due_at__lt=now - _STUCK)
    if given_up_count:
        summary = ngettext(
            "%(count)d message was given up in the last day.",
            "%(count)d messages were given up in the last day.",
            given_up_count,
        ) % {"count": given_up_count}
        advice = _("Read the reasons in the log under Notifications, correct them, and try the messages again.")
        return Status("webhooks", title, Level.PROBLEM, summary, advice)
    if waiting.exists():
        summary = _("Messages that are due wait to be sent.")
        advice = (
            _("No process sends them. Run %(serve)s, or %(deliver)s from cron.") % _map_names_to_background_commands()
        )
        return Status("webhooks", title, Level.PROBLEM, summary, advice)
    if not count:
        return Status("webhooks", title, Level.OFF, _("There is no webhook. Create one to tell other systems."))
    webhooks: QuerySet[Any] = query_webhooks_with_last_attempt(workspace.pk)
    failing = webhooks.filter(is_failing=True, paused_at=None).first()
    if failing is not None:
        summary = _("The last message to the webhook “%(name)s” could not be delivered.") % {
            "name": mask_and_reveal_hidden(failing.name)
        }
        advice = _("Read why under Notifications, correct it, and send a test message.")
        return Status("webhooks", title, Level.ATTENTION, summary, advice)
    summary = ngettext(
        "%(count)d webhook, no event was missed today.", "%(count)d webhooks, no event was missed today.", count
    )
    return Status("webhooks", title, Level.OK, summary % {"count": count})


def get_background_work_status() -> Status:
    """Report the tasks of this process: sweeper, messages, search index, live updates."""
    title, tasks, now = _("Sweeper and background work"), list_running_task_states(), clock.now()
    if not tasks:
        summary = _("No background work runs in this process.")
        advice = (
            _(
                "Lost runs are noticed and messages are sent only if another process does it. Start the site with "
                "%(serve)s, or run %(sweep)s and %(deliver)s from cron."
            )
            % _map_names_to_background_commands()
        )
        return Status("background", title, Level.ATTENTION, summary, advice)
    if failing := [task for task in tasks if task.is_failing]:
        summary = _("The last round of these tasks failed: %(names)s.") % {
            "names": ", ".join(f"{task.name} ({task.failure})" for task in failing)
        }
        return Status("background", title, Level.PROBLEM, summary, _("The server's log has the cause."))
    if late := [task for task in tasks if (task.round_at or task.started_at) < now - _LATE]:
        summary = _("These tasks have finished no round for more than a minute: %(names)s.") % {
            "names": ", ".join(task.name for task in late)
        }
        advice = _("The database may be slow or locked. If it stays like this, restart the site.")
        return Status("background", title, Level.PROBLEM, summary, advice)
    seconds = max(int((now - (task.round_at or task.started_at)).total_seconds()) for task in tasks)
    values = {"names": ", ".join(str(_TASK_LABELS.get(task.name, task.name)) for task in tasks), "seconds": seconds}
    summary = (
        _("This process does the background work: %(names)s. The last round of each was at most %(seconds)d s ago.")
        % values
    )
    return Status("background", title, Level.OK, summary)


def get_run_lease_status() -> Status:
    """Count the runs that own a session, and those whose lease is over although nobody has noticed."""
    title, owning = _("Leases"), Run.objects.filter(status__in=OWNING_RUN_STATUSES)
    live_count = len(owning.values_list("pk")[:_COUNTED])
    overdue_count = len(owning.filter(lease_expires_at__lt=Now() - _LATE).values_list("pk")[:_COUNTED])
    if overdue_count:
        summary = ngettext(
            "%(count)d run lost its lease more than a minute ago, and nobody has noticed.",
            "%(count)d runs lost their leases more than a minute ago, and nobody has noticed.",
            overdue_count,
        ) % {"count": overdue_count}
        commands = _map_names_to_background_commands()
        advice = _("No sweeper runs. Start the site with %(serve)s, or run this command from cron:") % commands
        return Status("leases", title, Level.PROBLEM, summary, advice, commands["sweep"])
    if not live_count:
        return Status("leases", title, Level.OK, _("No run owns a session now."))
    summary = ngettext("%(count)d run owns a session now.", "%(count)d runs own a session now.", live_count)
    return Status("leases", title, Level.OK, summary % {"count": live_count})


def get_search_index_status() -> Status:
    title, index = _("Search index"), load_index_status()
    if not index.was_ever_complete and index.behind:
        summary = _("The index is being built. About %(count)d texts are left.") % {"count": index.behind}
        advice = _("Recent texts are found first. If the number does not fall, run this command:")
        return Status(
            "search", title, Level.ATTENTION, summary, advice, prefix_management_command_with_program("index_search")
        )
    if index.behind > _BEHIND:
        summary = _("About %(count)d texts cannot be found yet.") % {"count": index.behind}
        advice = _("If the number does not fall, run this command:")
        return Status(
            "search", title, Level.ATTENTION, summary, advice, prefix_management_command_with_program("index_search")
        )
    return Status("search", title, Level.OK, _("Up to date."))


def get_quarantine_status(workspace: Workspace) -> Status:
    """Count the sessions with data that were changed outside of this program."""
    title = _("Quarantine")
    quarantined = Session.objects.filter(workspace=workspace, quarantined_at__isnull=False)
    count = len(quarantined.values_list("pk")[:_COUNTED])
    if not count:
        return Status("quarantine", title, Level.OK, _("No session is quarantined."))
    summary = ngettext(
        "%(count)d session is quarantined, because its data are not as they were written.",
        "%(count)d sessions are quarantined, because their data are not as they were written.",
        count,
    ) % {"count": count}
    advice = _("The page of each session says what was found and how to release it.")
    return Status("quarantine", title, Level.PROBLEM, summary, advice)


def get_seal_status() -> Status:
    """Report whether rows that were changed outside of this program are refused."""
    try:
        keys = get_seal_keys()
    except SealError as error:
        return Status("seals", _("Seals"), Level.PROBLEM, error.detail, error.hint)
    if keys is None:
        missing = _("Nothing is sealed.")
        consequence = _("Whoever can write to this database can change what agents and people have done.")
        advice = _("Give this site and every agent the same HARNESS_SEAL_KEY. Make one with:")
        line = 'python -c "import secrets; print(secrets.token_hex(32))"'
        return Status("seals", _("Seals"), Level.OFF, f"{missing} {consequence}", advice, line)
    summary = _("Rows are sealed with the key {key}.").format(key=keys.current.id.hex())
    if not keys.required:
        advice = _("Rows without a seal are accepted. Run this command, then unset HARNESS_SEAL_REQUIRED:")
        return Status(
            "seals",
            _("Seals"),
            Level.ATTENTION,
            summary,
            advice,
            prefix_management_command_with_program("seal_sessions"),
        )
    if _has_unsealed_session_among_oldest_or_newest():
        unsealed = _("There are sessions without a seal: no agent can continue them, and no page shows them.")
        advice = _(
            "If an agent runs without HARNESS_SEAL_KEY, set it there first. Then run this once, while you trust the "
            "database:"
        )
        line = prefix_management_command_with_program("seal_sessions")
        return Status("seals", _("Seals"), Level.ATTENTION, f"{summary} {unsealed}", advice, line)
    return _get_session_witness_status(summary)


def _has_unsealed_session_among_oldest_or_newest() -> bool:
    """Return whether the oldest sessions have no seal, as those from before sealing, or the newest, as those of an
    agent without the key."""
    return any(
        Session.objects.filter(
            pk__in=Session.objects.order_by(order).values("pk")[:_EXAMINED_SESSIONS], row_seal=None
        ).exists()
        for order in ("pk", "-pk")
    )


def _get_session_witness_status(summary: str) -> Status:
    """Report whether an earlier state of the database is refused."""
    title = _("Seals")
    try:
        witness = get_witness()
        if witness is None:
            missing = _(
                "There is no witness, so nobody notices if an earlier state of a session or database is restored, or "
                "if a session is deleted or renamed, so that its agent begins it anew."
            )
            advice = _("Give this site and every agent the same HARNESS_WITNESS, a file or a second database, then:")
            line = prefix_management_command_with_program('witness create --reason "first use"')
            return Status("seals", title, Level.OK, f"{summary} {missing}", advice, line)
        witness.find_session("")
    except SealError as error:
        return Status("seals", title, Level.PROBLEM, error.detail, error.hint)
    noticed = _(
        "The witness {place} shows when an earlier state of a session is restored; a resume refuses it."
    ).format(place=witness)
    return Status("seals", title, Level.OK, f"{summary} {noticed}")


def get_decision_signature_status() -> Status:
    """Report whether a host with agents can forge a decision of a person."""
    title = _("Signed decisions")
    try:
        keys = get_decision_keys()
    except SealError as error:
        return Status("decisions", title, Level.PROBLEM, error.detail, error.hint)
    if keys is None:
        summary = _(
            "Decisions are not signed. A host with agents that can write to this database can forge an approval."
        )
        advice = _("Give this site the first setting that this command prints, and every agent the second one.")
        return Status(
            "decisions", title, Level.OFF, summary, advice, prefix_management_command_with_program("make_decision_keys")
        )
    if keys.signing is None:
        summary = _("Signatures are required, and this site has no key to sign with: nobody can decide.")
        advice = _("Set HARNESS_DECISION_SIGNING_KEY. Make a pair of keys with:")
        return Status(
            "decisions",
            title,
            Level.PROBLEM,
            summary,
            advice,
            prefix_management_command_with_program("make_decision_keys"),
        )
    summary = _("Decisions of people are signed with the key {key}.").format(key=keys.signing_id.hex())
    return _get_unsigned_decision_status(title, summary)


def _get_unsigned_decision_status(title: str, summary: str) -> Status:
    """Report whether there are decisions of people from before signing."""
    unsigned = Decision.objects.filter(signature=None).exclude(kind__in=sorted(HOOK_KINDS), actor_kind=ActorKind.HOOK)
    if unsigned.exists():
        advice = _("There are decisions without a signature, which no agent accepts. If they are genuine, run:")
        return Status(
            "decisions",
            title,
            Level.ATTENTION,
            summary,
            advice,
            prefix_management_command_with_program("sign_decisions --all"),
        )
    return Status("decisions", title, Level.OK, summary)


def build_audit_anchor_status() -> Status:
    """Say how to keep an anchor of the audit trail. This program cannot know whether somebody does."""
    advice = _(
        "Keep the output of this command where the administrators of the database cannot write, for example by mail:"
    )
    return Status(
        "anchor",
        _("Anchor of the audit trail"),
        Level.OFF,
        _("Nothing outside of this database vouches for the audit trail."),
        advice,
        prefix_management_command_with_program("verify_audit"),
    )


def get_database_clock_status() -> Status:
    before = clock.now()
    database_time = clock.read_database_time("default")
    difference = database_time - (before + (clock.now() - before) / 2)
    summary = _("%(seconds).2f s between this machine and the database.") % {"seconds": abs(difference.total_seconds())}
    if abs(difference) > _CLOCK_WARNING:
        advice = _("Leases use the database's clock alone, but times on pages are wrong. Synchronise them (NTP).")
        return Status("clock", _("Clock"), Level.ATTENTION, summary, advice)
    return Status("clock", _("Clock"), Level.OK, summary)


def get_disk_space_status() -> Status:
    """Report the free space where the database file or the state folder lies."""
    title = _("Disk")
    is_file = connection.vendor == "sqlite"
    folder = Path(str(connection.settings_dict["NAME"])).parent if is_file else _get_state_folder_or_working_directory()
    usage = shutil.disk_usage(folder)
    values = {"free": filesizeformat(usage.free), "total": filesizeformat(usage.total)}
    summary = _("%(free)s of %(total)s free on this machine.") % values
    advice = "" if is_file else _("The database's own disk is on its server: watch it there.")
    if _is_free_space_below_both_limits(usage.free, usage.total, _DISK_ALARM):
        return Status("disk", title, Level.PROBLEM, summary, _("Make room now: a full disk stops every agent."))
    if _is_free_space_below_both_limits(usage.free, usage.total, _DISK_WARNING):
        command = prefix_management_command_with_program("prune")
        advice = _("Make room soon, for example with %(command)s.") % {"command": command}
        return Status("disk", title, Level.ATTENTION, summary, advice)
    return Status("disk", title, Level.OK, summary, advice)


def _map_names_to_background_commands() -> dict[str, str]:
    """Format the commands that do background work, by their names."""
    return {name: prefix_management_command_with_program(name) for name in ("serve", "sweep", "deliver")}


def _get_state_folder_or_working_directory() -> Path:
    folder = Path(getattr(settings, "STATE_DIR", Path.cwd()))
    return folder if folder.exists() else Path.cwd()


def _is_free_space_below_both_limits(free: int, total: int, limits: tuple[float, int]) -> bool:
    share, size = limits
    return free < total * share and free < size


def _run_check_or_report_failure(key: str, title: str, check: Callable[[], Status]) -> Status:
    try:
        return check()
    except (Error, OSError) as error:
        summary = _("This check failed: %(error)s.") % {"error": type(error).__name__}
        return Status(key, title, Level.PROBLEM, summary, _("The server's log may have the cause."))
