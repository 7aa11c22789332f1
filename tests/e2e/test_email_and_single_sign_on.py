"""E-mail notifications whose links open the card, and single sign-on."""

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.e2e import page_actions
from tests.e2e.conftest import OpenPage, StartAgent
from tests.support import openid_provider
from tests.support.browser import PageMonitor
from tests.support.exhaustive_mode import only_exhaustive
from tests.support.message_receivers import read_received_messages, smtp_receiver
from tests.support.processes import Child, wait_until
from tests.support.site_process import Site, fresh_database


@pytest.fixture
def mail_site(tmp_path: Path, template_database: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """Site with a mail server, which appends messages to the file `mails`, and an OpenID Connect provider."""
    with ExitStack() as stack:
        mail_server = Child(smtp_receiver, file=str(tmp_path / "mails"))
        stack.callback(mail_server.kill)
        identity_provider = Child(openid_provider.serve_provider_in_child)
        stack.callback(identity_provider.kill)
        site = Site(stack.enter_context(fresh_database(tmp_path, template_database)), tmp_path)
        monkeypatch.setenv("HARNESS_EMAIL_URL", f"smtp://127.0.0.1:{mail_server.expect('listening')}")
        monkeypatch.setenv("HARNESS_ADDRESS", site.address)
        monkeypatch.setenv("HARNESS_OIDC_URL", f"http://127.0.0.1:{identity_provider.expect('listening')}")
        monkeypatch.setenv("HARNESS_OIDC_CLIENT_ID", openid_provider.CLIENT)
        monkeypatch.setenv("HARNESS_OIDC_CLIENT_SECRET", openid_provider.SECRET)
        yield stack.enter_context(site)
        assert os.environ["HARNESS_ADDRESS"] == site.address


@pytest.mark.begins_first
def test_link_in_an_email_opens_the_card(mail_site: Site, start_agent: StartAgent, open_page: OpenPage) -> None:
    page = open_page("alice", mail_site)
    page.goto("/accounts/")
    page.get_by_role("link", name="Change notifications").click()
    page.get_by_label("Address").fill("alice@example.com")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("alice@example.com is not confirmed yet.")).to_be_visible()
    mails = mail_site.folder / "mails"
    page.goto(next(line for line in read_received_messages(mails)[0]["text"].splitlines() if line.startswith("http")))
    page.get_by_role("button", name="Confirm address").click()
    expect(page.get_by_text("Messages go to alice@example.com.")).to_be_visible()

    start_agent(mail_site, 17)
    wait_until(lambda: len(read_received_messages(mails)) > 1)
    _, mail = read_received_messages(mails)
    assert re.fullmatch(r"\[Harness\] Needs a decision: Refund .* for order 17", mail["subject"])
    page.goto(mail["text"].splitlines()[4])
    expect(page.get_by_role("heading", level=1, name="Did this happen?")).to_be_visible()
    page_actions.fill_in_decision(page, "It happened", "Seen in the ledger of the shop.")
    page_actions.record_decision(page, "It happened")
    expect(page_actions.completion_notice(page)).to_be_visible()

    admin = open_page("dora", mail_site)
    admin.goto("/settings/notifications/")
    row = admin.get_by_role("row").filter(has_text="alice@example.com")
    expect(row.get_by_text("Sent")).to_be_visible()


@only_exhaustive
def test_single_sign_on_requires_an_invitation(
    mail_site: Site, open_page: OpenPage, page_monitors: list[PageMonitor]
) -> None:
    page = open_page(site=mail_site)
    page_monitors[0].ignore(f"request to another host: {os.environ['HARNESS_OIDC_URL']}/authorize|status of 403")
    page.goto("/accounts/login/")
    page.get_by_role("button", name="Continue with single sign-on").click()
    expect(page.get_by_text("Ask an admin for an invitation, and open its link as erin")).to_be_visible()
