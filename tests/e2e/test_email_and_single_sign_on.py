"""Somebody is told that an agent waits, and the link in the message leads to the card."""

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.e2e import page_actions
from tests.e2e.conftest import StartAgent, Visit
from tests.support import openid_provider
from tests.support.browser import Watch
from tests.support.message_receivers import received, smtp_receiver
from tests.support.processes import Child, until
from tests.support.site_process import Site, fresh_database


@pytest.fixture
def telling(tmp_path: Path, prepared: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A site with a mail server, whose messages are lines of `mails`, and with a provider for single sign-on."""
    with ExitStack() as leaving:
        office = Child(smtp_receiver, file=str(tmp_path / "mails"))
        leaving.callback(office.kill)
        elsewhere = Child(openid_provider.serve)
        leaving.callback(elsewhere.kill)
        site = Site(leaving.enter_context(fresh_database(tmp_path, prepared)), tmp_path)
        monkeypatch.setenv("HARNESS_EMAIL_URL", f"smtp://127.0.0.1:{office.expect('listening')}")
        monkeypatch.setenv("HARNESS_ADDRESS", site.address)
        monkeypatch.setenv("HARNESS_OIDC_URL", f"http://127.0.0.1:{elsewhere.expect('listening')}")
        monkeypatch.setenv("HARNESS_OIDC_CLIENT_ID", openid_provider.CLIENT)
        monkeypatch.setenv("HARNESS_OIDC_CLIENT_SECRET", openid_provider.SECRET)
        yield leaving.enter_context(site)
        assert os.environ["HARNESS_ADDRESS"] == site.address


def test_the_link_in_a_mail_leads_to_the_card(telling: Site, start_agent: StartAgent, visit: Visit) -> None:
    page = visit("alice", telling)
    page.goto("/accounts/")
    page.get_by_role("link", name="Change notifications").click()
    page.get_by_label("Address").fill("alice@example.com")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("alice@example.com is not confirmed yet.")).to_be_visible()
    mails = telling.folder / "mails"
    page.goto(next(line for line in received(mails)[0]["text"].splitlines() if line.startswith("http")))
    page.get_by_role("button", name="Confirm address").click()
    expect(page.get_by_text("Messages go to alice@example.com.")).to_be_visible()

    start_agent(telling, 17)
    until(lambda: len(received(mails)) > 1)
    _, mail = received(mails)
    assert re.fullmatch(r"\[Harness\] Needs a decision: Refund .* for order 17", mail["subject"])
    page.goto(mail["text"].splitlines()[4])
    expect(page.get_by_role("heading", level=1, name="Did this happen?")).to_be_visible()
    page_actions.fill(page, "It happened", "Seen in the ledger of the shop.")
    page_actions.record(page, "It happened")
    expect(page_actions.finished(page)).to_be_visible()

    admin = visit("dora", telling)
    admin.goto("/settings/notifications/")
    row = admin.get_by_role("listitem").filter(has_text="alice@example.com")
    expect(row.get_by_text("Sent")).to_be_visible()


def test_single_sign_on_with_a_provider_elsewhere(telling: Site, visit: Visit, watches: list[Watch]) -> None:
    page = visit(site=telling)
    watches[0].expect(f"request to another host: {os.environ['HARNESS_OIDC_URL']}/authorize|status of 403")
    page.goto("/accounts/login/")
    page.get_by_role("button", name="Continue with single sign-on").click()
    expect(page.get_by_text("Ask an admin for an invitation, and open its link as erin")).to_be_visible()
