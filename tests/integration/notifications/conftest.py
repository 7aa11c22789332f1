"""Accounts and message receivers: alice is an approver and dora an admin, both with an address; carol is an auditor."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

import pytest
from django.contrib.auth.models import User
from django.db.models import F
from django.test import Client
from pytest_django.fixtures import Settings

from checkpoints.enums import Role, SessionStatus
from checkpoints.models import ToolCall, Workspace
from harness_site.accounts import encrypt_stored_secrets
from harness_site.mail_settings import MailServer, Security
from harness_site.notifications.create_due_notices import create_due_notices
from harness_site.notifications.models import CALL_EVENTS, Delivery, Notice, Webhook, WebhookFormat
from harness_site.notifications.send_due_deliveries import DeliveryRound, send_due_deliveries
from tests.support.client_login import sign_in
from tests.support.factories import make_call, make_run, make_session, make_user, make_workspace
from tests.support.message_receivers import (
    http_receiver,
    read_received_messages,
    run_deliver_and_collect_on_request,
    smtp_receiver,
)
from tests.support.processes import Child


@pytest.fixture
def alice(db: None) -> User:
    return make_user_with_address("alice", Role.APPROVER)


@pytest.fixture
def dora(db: None) -> User:
    return make_user_with_address("dora", Role.ADMIN)


@pytest.fixture
def carol(db: None) -> User:
    return make_user_with_address("carol", Role.AUDITOR)


@pytest.fixture
def admin(dora: User) -> Client:
    return sign_in(Client(), dora)


def make_user_with_address(name: str, role: Role) -> User:
    user = make_user(name=name, role=role)
    user.email = f"{name}@example.com"
    user.save()
    return user


@pytest.fixture
def mail(settings: Settings) -> None:
    """Configure a mail server at a closed port."""
    settings.MAIL_SERVER = MailServer(Security.PLAIN, "127.0.0.1", 9)
    settings.MAIL_FROM = "Harness <harness@example.com>"
    settings.SITE_ADDRESS = "https://harness.example"


def interrupted(tool: str = "refund_card", *, workspace: Workspace | None = None, **fields: Any) -> ToolCall:
    session = make_session(workspace=workspace or make_workspace(), status=SessionStatus.NEEDS_REVIEW)
    make_run(session=session)
    return make_call(session=session, tool=tool, **fields)


def make_due() -> None:
    """Make notices and attempts due that wait for more calls or the next retry."""
    Notice.objects.update(send_at=F("send_at") - timedelta(days=1))
    Delivery.objects.update(due_at=F("due_at") - timedelta(days=1))


def told() -> DeliveryRound:
    """Create notices, make them due, and run one delivery round."""
    create_due_notices()
    make_due()
    return send_due_deliveries()


def deliveries() -> list[tuple[str, str, int]]:
    """Return recipient, status and number of attempts of each delivery, in order."""
    return list(Delivery.objects.order_by("recipient", "pk").values_list("recipient", "status", "attempts"))


def make_webhook(
    address: str = "https://127.0.0.1/in", *, events: str = "", format: str = WebhookFormat.JSON, **fields: Any
) -> Webhook:
    """Create a webhook with the secret `whsec_test` and an address that is refused before sending."""
    return Webhook.objects.create(
        workspace=fields.pop("workspace", None) or make_workspace(),
        name=fields.pop("name", "pager"),
        host=address.split("/")[2].partition(":")[0],
        encrypted_address=encrypt_stored_secrets.encrypt_field(address, purpose="webhooks"),
        encrypted_secret=encrypt_stored_secrets.encrypt_field("whsec_test", purpose="webhooks"),
        format=format,
        events=events or ",".join(CALL_EVENTS),
        created_by="dora",
        **fields,
    )


class Receiver:
    """Server in another process, and the messages it received."""

    def __init__(self, child: Child, file: Path) -> None:
        self.child, self.file = child, file
        self.port: int = child.expect("listening")

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/in?key=k"

    @property
    def messages(self) -> list[dict[str, Any]]:
        return read_received_messages(self.file)


class Start(Protocol):
    def __call__(self, **options: Any) -> Receiver: ...


@contextmanager
def _starting(function: Any, file: Path) -> Iterator[Start]:
    with ExitStack() as leaving:

        def start(**options: Any) -> Receiver:
            child = Child(function, file=str(file), **options)
            leaving.callback(child.kill)
            return Receiver(child, file)

        yield start


@pytest.fixture
def web(tmp_path: Path, settings: Settings) -> Iterator[Start]:
    """Start HTTP receivers on this machine, which development mode allows as webhooks."""
    settings.DEBUG = True
    with _starting(http_receiver, tmp_path / "http.jsonl") as start:
        yield start


@pytest.fixture
def start_mail_server(tmp_path: Path, settings: Settings, mail: None) -> Iterator[Start]:
    """Start an SMTP server and configure it as the mail server."""
    with _starting(smtp_receiver, tmp_path / "smtp.jsonl") as start:

        def started(**options: Any) -> Receiver:
            receiver = start(**options)
            settings.MAIL_SERVER = MailServer(Security.PLAIN, "127.0.0.1", receiver.port)
            return receiver

        yield started


class StartSite(Protocol):
    def __call__(self, work: str, *, mail_port: int = 9) -> Child: ...


@pytest.fixture
def start_site(workspace: Workspace) -> Iterator[StartSite]:
    """Start processes on the test database that each run one round when told to."""
    from tests.support.processes import database_url

    children: list[Child] = []

    def start(work: str, *, mail_port: int = 9) -> Child:
        environment = {
            "HARNESS_DATABASE_URL": database_url(),
            "HARNESS_DEBUG": "1",
            "HARNESS_EMAIL_URL": f"smtp://127.0.0.1:{mail_port}",
        }
        children.append(Child(run_deliver_and_collect_on_request, fresh=True, environment=environment, work=work))
        return children[-1]

    yield start
    for child in children:
        child.kill()
