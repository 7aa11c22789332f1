"""Refusals of a mail server: each is a sentence on the system page and one line in the log, without a traceback."""

import re
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta

import pytest
from django.db.models.functions import Now
from django.test import Client
from pytest_django.fixtures import Settings

from checkpoints.enums import Role
from harness_site import send_email
from harness_site.installation import failed_test_mail_in_user_session
from harness_site.installation.first_steps import Step
from harness_site.installation.installation_checks import Level, Status, get_mail_settings_status
from harness_site.mail_settings import MailServer, Security
from harness_site.notifications.models import Delivery, DeliveryStatus, Event, Notice
from harness_site.notifications.record_mail_server_acceptance import remember_mail_server_as_accepting
from tests.support.client_login import sign_in
from tests.support.factories import make_user, make_workspace
from tests.support.page_text import visible_text
from tests.support.site_process import free_port

pytestmark = pytest.mark.django_db

LOGIN = ("250-here", "250 AUTH PLAIN")
ANSWERS = {"EHLO": ("250 here",), "MAIL": ("250 fine",), "RCPT": ("250 fine",)}

StartServer = Callable[..., int]


class Script(socketserver.ThreadingTCPServer):
    """SMTP server with an answer for each command; an empty one closes the connection."""

    daemon_threads = True
    answers: dict[str, tuple[str, ...]]


class Conversation(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, Script)
        self.wfile.write(b"220 here\r\n")
        for line in self.rfile:
            if line.upper().startswith(b"DATA"):
                self.wfile.write(b"354 go on\r\n")
                while self.rfile.readline() not in (b".\r\n", b""):
                    pass
            answer = self.server.answers.get(line[:4].decode("latin-1").upper(), ("250 fine",))
            if not answer:
                return
            self.wfile.write("".join(f"{part}\r\n" for part in answer).encode())


@pytest.fixture
def start_mail_server() -> Iterator[StartServer]:
    """Start servers with scripted answers; returns the port of each."""
    with ExitStack() as leaving:

        def start(**answers: tuple[str, ...]) -> int:
            server = leaving.enter_context(Script(("127.0.0.1", 0), Conversation))
            server.answers = {**ANSWERS, **answers}
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
            leaving.callback(server.shutdown)
            return int(server.server_address[1])

        yield start


@pytest.fixture
def admin() -> Client:
    return sign_in(Client(), make_user(name="dora", role=Role.ADMIN))


@pytest.fixture
def send(admin: Client, settings: Settings, caplog: pytest.LogCaptureFixture) -> Callable[[MailServer], str]:
    """Send a test message with the button, and return the sentence on the page, which the log has too."""

    def send(server: MailServer) -> str:
        settings.MAIL_SERVER = server
        caplog.clear()
        page = admin.post("/settings/system/mail/", {"address": "dora@example.com"})
        assert page.status_code == 409
        sentence = str(page.context["mail_problem"])
        assert sentence in visible_text(page).replace("\n", " ")
        (record,) = [one for one in caplog.records if one.name.startswith("harness_site")]
        assert record.getMessage() == f"The test message was not sent. {sentence}"
        assert record.exc_info is None
        return sentence

    return send


@pytest.mark.parametrize(
    ("answers", "user", "words"),
    [
        ({"EHLO": LOGIN, "AUTH": ("535 5.7.8 bad credentials",)}, "dora", "refused the user name and password. Check"),
        ({"EHLO": LOGIN, "AUTH": ("534 5.7.9 app password",)}, "dora", "Create a password for applications"),
        ({}, "dora", "takes no user name and password over this connection. Use smtp+starttls://"),
        ({"EHLO": LOGIN}, "dörte", "cannot take letters beyond ASCII here. Check the user name"),
        ({"MAIL": ("530 5.7.0 Must issue a STARTTLS command first",)}, "", "wants an encrypted connection. Use"),
        ({"MAIL": ("530 5.7.0 Authentication required",)}, "", "wants a user name and password. Put them"),
        ({"MAIL": ("553 5.7.1 sender not owned",)}, "", "refused the sender. Set HARNESS_EMAIL_FROM"),
        ({"RCPT": ("554 5.7.1 Relay access denied",)}, "", "does not pass messages on to this address. Put a user"),
        ({"RCPT": ("550 5.1.1 no such user",)}, "", "recipient. Check the address: 550 5.1.1 no such user."),
        ({"RCPT": ("451 4.7.1 greylisted",)}, "", "cannot take the message now. Try again in some minutes: 451"),
        ({"MAIL": ()}, "", "closed the connection. Check scheme and port"),
    ],
)
def test_each_refusal_says_what_to_do(
    start_mail_server: StartServer,
    send: Callable[[MailServer], str],
    answers: dict[str, tuple[str, ...]],
    user: str,
    words: str,
) -> None:
    port = start_mail_server(**answers)
    assert words in send(MailServer(Security.PLAIN, "127.0.0.1", port, user, "a password"))


def test_connection_problems_say_what_to_do(
    start_mail_server: StartServer, send: Callable[[MailServer], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    port = start_mail_server()
    assert "refused the connection. Check host and port" in send(MailServer(Security.PLAIN, "127.0.0.1", free_port()))
    assert "does not exist. Check the spelling" in send(MailServer(Security.PLAIN, "mail.invalid", 25))
    assert "does not support this kind of connection" in send(MailServer(Security.STARTTLS, "127.0.0.1", port))
    assert "Check the scheme and the port" in send(MailServer(Security.TLS, "127.0.0.1", port))
    monkeypatch.setattr(send_email, "_STEP", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent_port = silent.getsockname()[1]
        assert "did not answer in time" in send(MailServer(Security.PLAIN, "127.0.0.1", silent_port))


def test_accepted_message_counts_as_sent_whatever_the_goodbye_is(
    start_mail_server: StartServer, admin: Client, settings: Settings
) -> None:
    for goodbye in (("500 what?",), ()):
        port = start_mail_server(QUIT=goodbye)
        settings.MAIL_SERVER = MailServer(Security.PLAIN, "127.0.0.1", port)
        assert admin.post("/settings/system/mail/", {"address": "dora@example.com"}).status_code == 302


def make_unsent_delivery() -> Delivery:
    notice = Notice.objects.create(workspace=make_workspace(), event=Event.TEST, send_at=Now())
    user = make_user(name="alice")
    return Delivery.objects.create(
        notice=notice, user=user, recipient="a@b", due_at=Now(), attempted_at=Now(), problem="Wrong password. Check it."
    )


def get_mail_step(admin: Client) -> Step:
    steps: list[Step] = admin.get("/settings/first-steps/").context["steps"]
    return next(step for step in steps if step.title == "Mail")


def test_system_page_shows_why_the_newest_message_was_not_sent(admin: Client, settings: Settings) -> None:
    settings.MAIL_SERVER = MailServer(Security.TLS, "mail.example.com", 465)
    assert "The newest message was not sent" not in visible_text(admin.get("/settings/system/"))
    delivery = make_unsent_delivery()
    text = visible_text(admin.get("/settings/system/"))
    assert "The newest message was not sent." in text
    assert "Wrong password. Check it." in text
    Delivery.objects.filter(pk=delivery.pk).update(status=DeliveryStatus.SENT)
    assert "The newest message was not sent" not in visible_text(admin.get("/settings/system/"))


@pytest.mark.parametrize(
    ("host", "sender", "user", "words"),
    [
        ("mail.example.com", "harness@127.0.0.1", "", "Set this variable to an address from which your mail server"),
        ("mail.example.com", "Harness <harness@localhost>", "", "Set this variable to an address"),
        ("mail.example.com", "harness@example.com", "dora", "The password travels without encryption."),
        ("mail.example.com", "harness@example.com", "", ""),
        ("127.0.0.1", "harness@example.com", "dora", ""),
    ],
)
def test_mail_settings_are_checked(settings: Settings, host: str, sender: str, user: str, words: str) -> None:
    settings.MAIL_SERVER, settings.MAIL_FROM = MailServer(Security.PLAIN, host, 25, user, "secret"), sender
    status = get_mail_settings_status()
    assert (status.level is Level.OK) is (not words)
    assert status.advice.startswith(words)


@pytest.mark.parametrize(("sender", "has_line"), [("harness@127.0.0.1", True), ("harness@example.com", False)])
def test_missing_sender_is_named_before_mail_is_set_up(settings: Settings, sender: str, has_line: bool) -> None:
    settings.MAIL_SERVER, settings.MAIL_FROM = None, sender
    status = get_mail_settings_status()
    assert status.line.startswith("export HARNESS_EMAIL_URL=")
    assert ("export HARNESS_EMAIL_FROM=" in status.line) is has_line
    assert sender not in status.summary + status.advice + status.line


def test_mail_server_of_this_machine_is_enough_but_the_sender_is_named(settings: Settings) -> None:
    settings.MAIL_SERVER = MailServer(Security.PLAIN, "127.0.0.1", 25, "", "")
    settings.MAIL_FROM = "harness@127.0.0.1"
    status = get_mail_settings_status()
    assert status.level is Level.OK
    assert status.advice.startswith("If messages leave this machine,")
    assert status.line.startswith("export HARNESS_EMAIL_FROM=")


@pytest.mark.parametrize("accepted", ["test message", "invitation"])
def test_mail_is_done_once_the_server_has_accepted_a_message(
    start_mail_server: StartServer, admin: Client, settings: Settings, accepted: str
) -> None:
    settings.MAIL_SERVER = MailServer(Security.PLAIN, "127.0.0.1", start_mail_server())
    settings.MAIL_FROM = "harness@example.com"
    assert not get_mail_step(admin).done
    assert "The mail server has not accepted a message yet. Send a test message." in get_mail_step(admin).summary
    if accepted == "invitation":
        admin.post("/settings/invitations/", {"email": "eve@example.com", "role": "auditor"})
    else:
        admin.post("/settings/system/mail/", {"address": "dora@example.com"})
    assert get_mail_step(admin).done
    settings.MAIL_SERVER = MailServer(Security.PLAIN, "mail.example.com", 25)
    assert not get_mail_step(admin).done, "another server has not accepted anything"


def test_first_steps_say_why_mail_is_not_done(admin: Client, settings: Settings) -> None:
    settings.MAIL_SERVER = MailServer(Security.PLAIN, "mail.example.com", 25, "dora", "secret")
    settings.MAIL_FROM = "harness@example.com"
    page = admin.get("/settings/first-steps/")
    assert "The password travels without encryption. Use smtp+starttls://" in visible_text(page)
    html = page.content.decode()
    assert html.count("btn primary") == 1
    [form] = re.findall('<form[^>]*action="/settings/invitations/"[^>]*>', html)
    assert "novalidate" not in form  # the browser asks for the role here, the server answers on the page of the members
    assert re.search('<select name="role"[^>]* required', html)


def get_mail_part(page: object) -> Status:
    parts: list[Status] = [*page.context["open_statuses"], *page.context["ok_statuses"]]  # type: ignore[attr-defined]
    return next(part for part in parts if part.key == "mail")


def test_all_pages_agree_on_a_mail_server_that_has_accepted_nothing(admin: Client, settings: Settings) -> None:
    settings.MAIL_SERVER = MailServer(Security.PLAIN, "127.0.0.1", free_port())
    settings.MAIL_FROM = "harness@example.com"
    before = get_mail_part(admin.get("/settings/system/"))
    assert (before.level, before.hint) == (Level.ATTENTION, "")
    assert before.summary.endswith("The mail server has not accepted a message yet. Send a test message.")
    answer = get_mail_part(admin.post("/settings/system/mail/", {"address": "dora@example.com"}))
    assert answer.hint.startswith("The test message of 20")
    assert answer.hint.endswith("was not sent. The server refused the connection. Check host and port.")
    page = admin.get("/settings/system/")
    assert get_mail_part(page) == answer
    assert (answer.level, answer.summary) == (before.level, before.summary)
    assert answer.hint in visible_text(page)
    step = get_mail_step(admin)
    assert (step.done, step.summary) == (False, f"{answer.summary} {answer.hint}")


def test_failed_test_is_a_hint_and_no_problem_of_a_mail_server_that_works(
    start_mail_server: StartServer, admin: Client, settings: Settings
) -> None:
    port = start_mail_server()
    settings.MAIL_SERVER = MailServer(Security.PLAIN, "127.0.0.1", port)
    settings.MAIL_FROM = "harness@example.com"
    settings.MAIL_SERVER = MailServer(Security.PLAIN, "127.0.0.1", start_mail_server(RCPT=("550 5.1.1 no such user",)))
    remember_mail_server_as_accepting()
    admin.post("/settings/system/mail/", {"address": "dorra@example.com"})
    page = admin.get("/settings/system/")
    part = get_mail_part(page)
    assert part.level is Level.OK
    assert "The mail server refused the recipient. Check the address: 550 5.1.1" in part.hint
    assert '<details class="parts-ok" open>' in page.content.decode()
    step = get_mail_step(admin)
    assert (step.done, step.summary) == (True, f"{part.summary} {part.hint}")
    settings.MAIL_SERVER = MailServer(Security.PLAIN, "127.0.0.1", port)
    assert get_mail_part(admin.get("/settings/system/")).hint == "", "the test was one of another server"
    admin.post("/settings/system/mail/", {"address": "dora@example.com"})
    assert "failed_mail_test" not in admin.session


def test_failed_test_is_told_for_an_hour(admin: Client, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.MAIL_SERVER = MailServer(Security.PLAIN, "127.0.0.1", free_port())
    admin.post("/settings/system/mail/", {"address": "dora@example.com"})
    assert get_mail_part(admin.get("/settings/system/")).hint
    monkeypatch.setattr(failed_test_mail_in_user_session, "_LIFETIME", timedelta(0))
    assert get_mail_part(admin.get("/settings/system/")).hint == ""
