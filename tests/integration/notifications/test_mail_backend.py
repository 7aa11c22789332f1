"""Mail that Django sends itself goes through the mail server of the site."""

from email.message import Message
from typing import Any

import django
import pytest
from django.core.mail import EmailMessage, send_mail
from django.core.management import call_command

from harness_site import settings as site_settings
from harness_site.mail_backend import EmailBackend
from harness_site.mail_settings import MailServer, Security
from harness_site.send_email import HeaderContainsLineBreak, NoMailServer, send_email_through_server
from tests.integration.notifications.conftest import Start


@pytest.fixture(autouse=True)
def django_settings_of_the_site(settings: Any) -> None:
    name = "EMAIL_BACKEND" if django.VERSION < (6, 1) else "MAILERS"
    setattr(settings, name, getattr(site_settings, name))
    settings.DEFAULT_FROM_EMAIL = site_settings.DEFAULT_FROM_EMAIL


def test_test_message_of_django_reaches_the_server_of_the_site(start_mail_server: Start) -> None:
    office = start_mail_server()
    call_command("sendtestemail", "ann@example.org")
    (message,) = office.messages
    assert message["to"] == "ann@example.org"
    assert "Test email from" in message["subject"]


def test_message_goes_to_its_hidden_recipients_too(start_mail_server: Start) -> None:
    office = start_mail_server()
    mail = EmailMessage("Hello", "Text", to=["ann@example.org"], bcc=["bob@example.org"])
    assert mail.send() == 1
    (message,) = office.messages
    assert message["recipients"] == ["ann@example.org", "bob@example.org"]
    assert "bob@example.org" not in "".join(message["headers"])


def test_long_subject_beyond_ascii_is_sent(start_mail_server: Start) -> None:
    office = start_mail_server()
    subject = " ".join(["Prüfung der Verbindung mit dem Mailserver"] * 4)
    send_mail(subject, "Text", None, ["ann@example.org"])
    (message,) = office.messages
    assert message["subject"] == subject


@pytest.mark.parametrize("value", ["a\nEvil: b", "a\r\nEvil: b", "a\rEvil: b", "a\n\n b", "a\n"])
def test_header_that_would_become_two_is_refused(settings: Any, value: str) -> None:
    settings.MAIL_SERVER = MailServer(Security.CONSOLE)
    composed = Message()
    composed["Subject"] = value
    with pytest.raises(HeaderContainsLineBreak):
        send_email_through_server(composed, "")


def test_missing_mail_server_is_said(settings: Any) -> None:
    settings.MAIL_SERVER = None
    with pytest.raises(NoMailServer, match="Set HARNESS_EMAIL_URL"):
        send_mail("Hello", "Text", None, ["ann@example.org"])
    assert EmailBackend(fail_silently=True).send_messages([EmailMessage("Hello", "Text", to=["ann@example.org"])]) == 0


def test_console_prints_the_text(settings: Any, capsys: pytest.CaptureFixture[str]) -> None:
    settings.MAIL_SERVER = MailServer(Security.CONSOLE)
    send_mail("Hello", "The text", None, ["ann@example.org"])
    assert "E-mail to ann@example.org: Hello\nThe text" in capsys.readouterr().err
