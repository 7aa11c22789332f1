"""TLS connections are made only to servers with a trusted certificate."""

import json
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from pytest_django.fixtures import Settings

from harness_site.mail_settings import MailServer, Security
from harness_site.notifications.create_due_notices import create_due_notices
from harness_site.notifications.models import Delivery
from harness_site.notifications.send_due_deliveries import DeliveryRound, send_due_deliveries
from tests.integration.notifications.conftest import Start, interrupted, make_due, make_webhook
from tests.support.certificate_authority import Authority

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("mail")]
WRONG = ("another authority", "another name", "expired")


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Authority:
    """The only trusted certificate authority."""
    made = Authority(tmp_path / "trusted")
    monkeypatch.setenv("SSL_CERT_FILE", str(made.root))
    return made


@pytest.fixture
def wrong(request: pytest.FixtureRequest, authority: Authority, tmp_path: Path) -> str:
    """Certificate that is not valid for localhost."""
    made = {
        "another authority": lambda: Authority(tmp_path / "unknown").certificate("localhost"),
        "another name": lambda: authority.certificate("mail.example"),
        "expired": lambda: authority.certificate("localhost", expired=True),
    }
    return str(made[request.param]())


@pytest.fixture
def localhost(settings: Settings) -> None:
    """Allow webhooks to localhost."""
    settings.DEBUG = False
    settings.WEBHOOK_HOSTS = ["localhost"]


def told() -> DeliveryRound:
    interrupted()
    create_due_notices()
    make_due()
    return send_due_deliveries()


def problem() -> str:
    return Delivery.objects.get().problem


class TestWebhooks:
    def test_webhook_is_called_over_tls(
        self, web: Start, authority: Authority, localhost: None, settings: Settings
    ) -> None:
        receiver = web(certificate=str(authority.certificate("localhost")))
        settings.DEBUG = False
        make_webhook(f"https://localhost:{receiver.port}/in")
        assert told() == DeliveryRound(sent=1)
        (got,) = receiver.messages
        assert got["headers"]["Host"] == f"localhost:{receiver.port}"
        assert json.loads(got["body"])["event"] == "interrupted"

    @pytest.mark.parametrize("wrong", WRONG, indirect=True)
    def test_webhook_with_a_wrong_certificate_gets_nothing(
        self, web: Start, wrong: str, localhost: None, settings: Settings
    ) -> None:
        receiver = web(certificate=wrong)
        settings.DEBUG = False
        make_webhook(f"https://localhost:{receiver.port}/in")
        assert told() == DeliveryRound(failed=1)
        assert problem().startswith("The server's certificate is not trusted. ")
        assert receiver.messages == []

    def test_webhook_without_tls_gets_nothing(self, web: Start, localhost: None, settings: Settings) -> None:
        receiver = web()
        settings.DEBUG = False
        make_webhook(f"https://localhost:{receiver.port}/in")
        assert told() == DeliveryRound(failed=1)
        assert problem().startswith("No secure connection could be made. ")
        assert receiver.messages == []


@pytest.mark.parametrize("security", [Security.TLS, Security.STARTTLS], ids=["implicit", "starttls"])
class TestMail:
    def test_mail_is_sent_over_tls(
        self, start_mail_server: Start, authority: Authority, settings: Settings, alice: User, security: Security
    ) -> None:
        certificate = str(authority.certificate("localhost"))
        office = start_mail_server(certificate=certificate, offering=security is Security.STARTTLS)
        settings.MAIL_SERVER = MailServer(security, "localhost", office.port)
        assert told() == DeliveryRound(sent=1)
        (mail,) = office.messages
        assert (mail["to"], mail["secure"]) == ("alice@example.com", True)

    @pytest.mark.parametrize("wrong", WRONG, indirect=True)
    def test_mail_server_with_a_wrong_certificate_gets_nothing(
        self, start_mail_server: Start, wrong: str, settings: Settings, alice: User, security: Security
    ) -> None:
        office = start_mail_server(certificate=wrong, offering=security is Security.STARTTLS)
        settings.MAIL_SERVER = MailServer(security, "localhost", office.port)
        assert told() == DeliveryRound(failed=1)
        assert problem().startswith("The server's certificate is not trusted. ")
        assert office.messages == []


@pytest.mark.usefixtures("authority")
def test_mail_server_without_starttls_gets_nothing(start_mail_server: Start, settings: Settings, alice: User) -> None:
    office = start_mail_server()
    settings.MAIL_SERVER = MailServer(Security.STARTTLS, "localhost", office.port)
    assert told() == DeliveryRound(failed=1)
    assert problem().startswith("The mail server does not support this kind of connection")
    assert office.messages == []
