"""The system page, the probes, and the first steps, which share their checks."""

from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
import uvicorn
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.db import connection, connections
from django.db.models.functions import Now
from django.db.utils import OperationalError
from django.test import Client
from pytest_django.fixtures import Settings

from checkpoints.db import clock
from checkpoints.enums import Role
from checkpoints.models import Run, Session
from checkpoints.seals.witness import get_witness
from checkpoints.seals.witness_file import FileWitness
from harness_site import site_address
from harness_site.core import background_task
from harness_site.installation import database_readiness, installation_checks
from harness_site.installation.installation_checks import Level
from harness_site.mail_settings import MailServer, Security
from harness_site.notifications.models import Delivery, DeliveryStatus, Event, Notice
from tests.integration.notifications.conftest import make_webhook
from tests.support.client_login import sign_in
from tests.support.factories import make_call, make_decision, make_run, make_session, make_user, make_workspace
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db

PUBLIC_KEY = "8146640f02493af4fbc54fe33388e75dc2c937ae0b7727cc2b2afb1b75199a3e"


@pytest.fixture
def admin() -> Client:
    user = make_user(name="dora", role=Role.ADMIN)
    user.email = "dora@example.com"
    user.save()
    return sign_in(Client(), user)


def test_page_lists_every_check(admin: Client) -> None:
    text = visible_text(admin.get("/settings/system/"))
    for words in ("Harness 0.1.0", "migrations applied", "HARNESS_EMAIL_URL", "Anchor of the audit trail"):
        assert words in text
    assert ("PostgreSQL" if connection.vendor == "postgresql" else "SQLite") in text
    assert "between this machine and the database" in text
    assert "free on this machine" in text
    assert "python manage.py verify_audit" in text


def test_system_page_and_first_steps_count_a_missing_second_factor(admin: Client) -> None:
    words = "dora has no second factor yet. A stolen password is enough to sign in."
    for path in ("/settings/system/", "/settings/first-steps/"):
        assert words in visible_text(admin.get(path)), path
    assert 'id="second-factor"' in admin.get("/settings/system/").content.decode()


def test_price_table_says_why_and_what_to_do(admin: Client) -> None:
    summary = admin.get("/settings/system/").content.decode().partition("Set up a price table")[2]
    assert "Copy the table into a file and enter the prices" in summary.partition("</summary>")[0]


@pytest.mark.parametrize(
    ("key", "required", "words"),
    [
        ("", None, "Nothing is sealed. Whoever can write to this database"),
        ("5e" * 32, None, "There is no witness, so nobody notices"),
        ("5e" * 32, False, "python manage.py seal_sessions"),
        ("short", None, "is not 64 hexadecimal digits"),
    ],
)
def test_page_names_the_missing_guarantee_of_seals(
    admin: Client, settings: Settings, key: str, required: bool | None, words: str
) -> None:
    settings.HARNESS_SEAL_KEY, settings.HARNESS_SEAL_REQUIRED = key, required
    assert words in visible_text(admin.get("/settings/system/"))


def test_page_names_sessions_from_before_the_seals(admin: Client, settings: Settings) -> None:
    settings.HARNESS_SEAL_KEY = ""
    make_session()
    settings.HARNESS_SEAL_KEY = "5e" * 32
    text = visible_text(admin.get("/settings/system/"))
    assert "There are sessions without a seal" in text
    assert "python manage.py seal_sessions" in text
    call_command("seal_sessions", stdout=StringIO())
    assert "There are sessions without a seal" not in visible_text(admin.get("/settings/system/"))


def test_the_page_names_the_witness_or_what_is_wrong_with_it(admin: Client, settings: Settings, tmp_path: Path) -> None:
    settings.HARNESS_SEAL_KEY, settings.HARNESS_WITNESS = "5e" * 32, str(tmp_path / "witness.log")
    assert "cannot be used (FileNotFoundError)" in visible_text(admin.get("/settings/system/"))
    FileWitness.create_storage(tmp_path / "witness.log")
    get_witness.cache_clear()
    assert f"The witness {tmp_path}/witness.log shows when an earlier state" in visible_text(
        admin.get("/settings/system/")
    )


def test_page_names_quarantined_sessions_and_links_to_them(admin: Client) -> None:
    assert "No session is quarantined." in visible_text(admin.get("/settings/system/"))
    make_session(quarantined_at=clock.now())
    response = admin.get("/settings/system/")
    assert "1 session is quarantined, because its data are not as they were written." in visible_text(response)
    assert 'href="/sessions/?status=quarantined"' in response.content.decode()


@pytest.mark.parametrize(
    ("signing", "verifying", "words"),
    [
        (None, None, "can write to this database can forge an approval."),
        (None, PUBLIC_KEY, "this site has no key to sign with: nobody can decide."),
        ("5e" * 32, None, "Decisions of people are signed with the key 1"),
        (None, "short", "key 1 of HARNESS_DECISION_VERIFY_KEYS is not 64 hexadecimal digits"),
    ],
)
def test_page_shows_whether_decisions_are_signed(
    admin: Client, settings: Settings, signing: str | None, verifying: str | None, words: str
) -> None:
    settings.HARNESS_DECISION_SIGNING_KEY, settings.HARNESS_DECISION_VERIFY_KEYS = signing, verifying
    assert words in visible_text(admin.get("/settings/system/"))


def test_failing_check_does_not_hide_others(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise OperationalError("the table is locked")

    monkeypatch.setattr(installation_checks, "load_index_status", fail)
    text = visible_text(admin.get("/settings/system/"))
    assert "This check failed: OperationalError." in text
    assert "No run owns a session now." in text


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("harness.example.org", "it has no scheme. Begin it with https:// or http://"),
        ("ftp://harness.example.org", "browsers do not open ftp://"),
        ("https://:8000", "its host name is missing or not valid"),
        ("https://a b", "its host name is missing or not valid"),
        ("https://h.example/harness", "it has a path"),
    ],
)
def test_invalid_site_address_is_refused(admin: Client, settings: Settings, address: str, words: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"^HARNESS_ADDRESS is .*: ") as refusal:
        site_address.validate_and_strip_site_address(address)
    assert words in str(refusal.value)
    settings.SITE_ADDRESS = address
    assert words in visible_text(admin.get("/settings/system/"))


def test_site_address_is_compared_with_the_browser(admin: Client, settings: Settings) -> None:
    settings.SITE_ADDRESS, settings.SITE_ADDRESS_IS_GUESSED = "http://testserver", False
    assert "reached from your browser without encryption" in visible_text(admin.get("/settings/system/"))
    settings.SITE_ADDRESS = "https://harness.example"
    text = visible_text(admin.get("/settings/system/"))
    assert "https://harness.example, but your browser uses http://testserver." in text
    assert "export HARNESS_ADDRESS=http://testserver" in text
    settings.SITE_ADDRESS_IS_GUESSED = True
    assert "which is a guess" in visible_text(admin.get("/settings/system/"))


def test_guessed_site_address_has_the_port_of_the_server(
    admin: Client, settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.SITE_ADDRESS, settings.SITE_ADDRESS_IS_GUESSED = "http://127.0.0.1:8000", True
    started: list[dict[str, object]] = []
    monkeypatch.setattr(uvicorn, "run", lambda *_args, **options: started.append(options))
    call_command("serve", port=8123)
    assert "Links in messages begin with http://127.0.0.1:8123" in visible_text(admin.get("/settings/system/"))
    assert capsys.readouterr().out == "The address of the site is http://127.0.0.1:8123\n"
    settings.SITE_ADDRESS, settings.SITE_ADDRESS_IS_GUESSED = "https://harness.example.org", False
    call_command("serve", port=8123, access_log=True)
    told = "The address of the site is https://harness.example.org\nThis process listens on http://127.0.0.1:8123\n"
    assert capsys.readouterr().out == told
    assert [options["access_log"] for options in started] == [False, True]


def test_stopped_background_work_is_reported(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(session=make_session())
    Run.objects.filter(pk=run.pk).update(lease_expires_at=Now() - timedelta(minutes=5))
    notice = Notice.objects.create(workspace=make_workspace(), event=Event.TEST, send_at=clock.now())
    late = clock.now() - timedelta(hours=1)
    delivery = Delivery.objects.create(
        notice=notice, user=make_user(name="erin"), recipient="e@example.com", due_at=late
    )
    text = visible_text(admin.get("/settings/system/"))
    assert "1 run lost its lease more than a minute ago" in text
    assert "Messages that are due wait to be sent." in text
    assert "No background work runs in this process." in text
    Delivery.objects.filter(pk=delivery.pk).update(status=DeliveryStatus.GIVEN_UP, attempted_at=clock.now())
    assert "given up" not in visible_text(admin.get("/settings/system/"))  # nobody missed a test
    Notice.objects.filter(pk=notice.pk).update(event=Event.REMINDER)
    state = background_task.TaskState("sweeper", late)
    monkeypatch.setattr(background_task, "_running", {"sweeper": state})
    text = visible_text(admin.get("/settings/system/"))
    assert "1 message was given up in the last day." in text
    assert "These tasks have finished no round for more than a minute: sweeper." in text
    state.failed_at, state.failure = clock.now(), "OperationalError"
    assert (
        installation_checks.get_background_work_status().summary
        == "The last round of these tasks failed: sweeper (OperationalError)."
    )
    state.round_at = clock.now()
    status = installation_checks.get_background_work_status()
    assert status.level is Level.OK
    assert status.summary.startswith("This process does the background work: sweeper.")
    monkeypatch.setattr(background_task, "_running", {"indexer": background_task.TaskState("indexer", clock.now())})
    assert "work: search index." in installation_checks.get_background_work_status().summary


def test_refusing_mail_server_is_reported_with_a_hint(admin: Client, settings: Settings) -> None:
    settings.MAIL_SERVER = MailServer(Security.PLAIN, "127.0.0.1", 9)
    settings.MAIL_FROM = "Harness <harness@example.com>"
    refused = admin.post("/settings/system/mail/", {"address": "dora@example.com"})
    assert refused.status_code == 409
    assert "The test message was not sent. The server refused the connection. Check host and port." in visible_text(
        refused
    )
    assert [one.level for one in refused.context["open_statuses"] if one.key == "mail"] == [Level.ATTENTION]
    settings.MAIL_SERVER = MailServer(Security.CONSOLE)
    sent = admin.post("/settings/system/mail/", {"address": "dora@example.com"}, follow=True)
    assert "The mail server accepted the test message for dora@example.com." in visible_text(sent)
    assert "accepted the test message" not in visible_text(admin.get("/settings/system/")), (
        "a confirmation is shown once"
    )


def test_webhook_whose_last_message_failed_wants_attention(admin: Client) -> None:
    webhook = make_webhook(name="pager")
    notice = Notice.objects.create(workspace=make_workspace(), event=Event.INTERRUPTED, send_at=clock.now())
    delivery = Delivery.objects.create(
        notice=notice, webhook=webhook, due_at=clock.now() + timedelta(minutes=5), attempted_at=clock.now()
    )
    text = visible_text(admin.get("/settings/system/"))
    assert "The last message to the webhook “pager” could not be delivered. Read why under Notifications" in text
    Delivery.objects.filter(pk=delivery.pk).update(status=DeliveryStatus.SENT)
    assert "1 webhook, no event was missed today." in visible_text(admin.get("/settings/system/"))


def test_nobody_is_told_without_mail_and_webhooks(admin: Client, settings: Settings) -> None:
    settings.MAIL_SERVER = None
    levels = {one.key: one.level for one in admin.get("/settings/system/").context["open_statuses"]}
    assert (levels["mail"], levels["webhooks"]) == (Level.ATTENTION, Level.OFF), "one problem is told once"
    text = visible_text(admin.get("/settings/system/"))
    assert text.count("Nobody is told about calls that wait for a decision.") == 1
    make_webhook(name="pager")
    levels = {one.key: one.level for one in admin.get("/settings/system/").context["open_statuses"]}
    assert levels["mail"] == Level.OFF


def test_first_steps_show_the_checks_until_they_are_done(admin: Client, settings: Settings) -> None:
    text = visible_text(admin.get("/settings/first-steps/"))
    assert "dora has no second factor yet." in text
    assert installation_checks.get_mail_settings_status().summary in text
    assert "Waiting for the session of this program." in text
    session = make_session(session_id="order-1")
    assert "Connect your agent" not in visible_text(admin.get("/settings/first-steps/")), "it has a page of its own"
    assert _follow_agent_step(admin) == ("Show the program", "how=python")
    Session.objects.update(session_id="first-langgraph-session")
    assert _follow_agent_step(admin) == ("Show the program", "how=langgraph")
    make_decision(call=make_call(session=session))
    assert "Connect another: First agent" in visible_text(admin.get("/settings/first-steps/"))
    Session.objects.update(session_id="order-1")
    page = admin.get("/settings/connect/?after=0")
    assert f'href="/sessions/{session.pk}/">order-1</a>' in page.content.decode()


def _follow_agent_step(admin: Client) -> tuple[str, str]:
    """Follow the link of the step of the first agent to the program whose call waits for an approval."""
    steps = admin.get("/settings/first-steps/").context["steps"]
    assert "Next: decide about a call" in visible_text(admin.get(steps[-1].url))
    return steps[-1].action, steps[-1].url.partition("?")[2].partition("&")[0]


def test_health_checks_distinguish_live_from_ready(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [client.get(f"/health/{probe}").json() for probe in ("live", "ready")] == [{"status": "ok"}] * 2
    missing = database_readiness.SchemaState(1, ("checkpoints.0002_next",), ())
    monkeypatch.setattr("harness_site.home_and_health_views.probe", database_readiness.SchemaProbe())
    monkeypatch.setattr(database_readiness, "load_schema_state", lambda: missing)
    monkeypatch.setattr(installation_checks, "load_schema_state", lambda: missing)
    refused = client.get("/health/ready")
    assert (refused.status_code, refused.json()["problem"]) == (503, "migrations")
    assert installation_checks.get_migration_status().summary == "1 migration is not applied: checkpoints.0002_next."


def test_readiness_check_detects_an_unreachable_database(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise OperationalError("server closed the connection")

    with monkeypatch.context() as lost:
        lost.setattr(connections["default"], "cursor", fail)
        refused = client.get("/health/ready")
    assert (refused.status_code, refused.json()["problem"]) == (503, "database")
    assert client.get("/health/live").status_code == 200
