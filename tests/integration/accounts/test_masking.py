"""Masking of secrets: pages, forms, permissions, settings and audit entries."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from checkpoints.db import clock
from checkpoints.enums import CallStatus, Role
from checkpoints.formats import to_canonical_json
from checkpoints.models import ToolCall
from harness_site.accounts import unmasking
from harness_site.accounts.models import MaskingSettings
from harness_site.core.masking import masker
from harness_site.review import argument_edit_parsing_and_originals
from tests.support.audit_entries import list_entries
from tests.support.client_login import record_reauthentication, sign_in
from tests.support.factories import (
    PASSWORD,
    make_call,
    make_checkpoint,
    make_late_result,
    make_message,
    make_run,
    make_session,
    make_user,
    make_workspace,
)
from tests.support.page_text import visible_text

KEY = "sk_live_4eC39HqLyjWDarjtT1zdp7dc"
WORD = "hunter2-of-the-shop"


@pytest.fixture
def call(db: None) -> ToolCall:
    """Call of a session whose messages, arguments, results, plan and decisions contain a key."""
    session = make_session(title=f"Refund with {KEY}", result=f'"{KEY}"')
    make_run(session=session)
    make_message(session=session, text=f"Use {KEY}, password: {WORD}.")
    blocks: list[dict[str, Any]] = [
        {"kind": "reasoning", "text": f"The key is {KEY}"},
        {"kind": "tool_call", "id": "call_9", "name": "refund_card", "args": {"password": WORD, "note": KEY}},
    ]
    make_message(session=session, role="assistant", blocks=blocks)
    result = {"kind": "tool_result", "call_id": "call_9", "content": f'{{"token": "{WORD}", "said": "{KEY}"}}'}
    make_message(session=session, role="tool", blocks=[result])
    plan = {"steps": [{"id": "1", "title": f"Pay with {KEY}", "status": "done"}], "password": WORD}
    make_checkpoint(session=session, plan=plan, length=1)
    make_checkpoint(session=session, plan=plan)
    return make_call(
        session=session,
        args={"password": WORD, "note": KEY},
        sentence=f"Pay with {KEY}",
        result=f"token={WORD} {KEY}",
    )


def pages(call: ToolCall) -> list[str]:
    base = f"/sessions/{call.session_id}"
    return [
        "/sessions/",
        f"{base}/",
        f"{base}/messages/0/",
        f"{base}/messages/1/",
        f"{base}/messages/2/",
        f"{base}/versions/",
        f"{base}/compare/?a=1&b=2",
        f"{base}/calls/",
        f"{base}/calls/{call.pk}/",
        f"{base}/plan/",
        f"{base}/history/",
        "/review/",
        f"/review/calls/{call.pk}/",
    ]


def test_card_shows_no_secret_before_the_approval(client: Client, call: ToolCall, alice: User) -> None:
    waiting = make_call(
        session=call.session,
        call_id="call_10",
        args={"password": WORD, "note": KEY},
        status=CallStatus.AWAITING_APPROVAL,
    )
    late = make_late_result(call=call, result=f"token={WORD} {KEY}")
    client.force_login(alice)
    for page in (f"/review/calls/{waiting.pk}/", f"/review/calls/{late.tool_call_id}/", "/review/?tab=awaiting"):
        text = client.get(page).content.decode()
        assert KEY not in text, page
        assert WORD not in text, page


def test_moved_mask_is_refused(call: ToolCall) -> None:
    stored = to_canonical_json({"items": [{"token": WORD}], "note": "plain"})
    assert argument_edit_parsing_and_originals.parse_and_unmask_edited_arguments(
        f'{{"items": [{{"token": "{masker.MASK}"}}], "note": "new"}}', stored
    ) == {
        "items": [{"token": WORD}],
        "note": "new",
    }
    for moved in (f'{{"other": "{masker.MASK}"}}', f'{{"items": [], "note": "with {masker.MASK}"}}'):
        with pytest.raises(
            argument_edit_parsing_and_originals.InvalidArgumentText, match="it stands for no masked value here"
        ):
            argument_edit_parsing_and_originals.parse_and_unmask_edited_arguments(moved, stored)


class TestLateWitness:
    """A late result is suggested masked; an unchanged suggestion stands for the stored result."""

    LATE = f"token={WORD}\nand {KEY}"

    def decide(self, client: Client, call: ToolCall, result: str) -> int:
        form = {"kind": "confirm_landed", "revision": call.revision, "reason": "Seen.", "result": result}
        return client.post(f"/review/calls/{call.pk}/", form).status_code

    def test_unchanged_masked_result_is_the_stored_one(self, client: Client, call: ToolCall, alice: User) -> None:
        make_late_result(call=call, result=self.LATE)
        client.force_login(alice)
        assert self.decide(client, call, f"token={masker.MASK}\r\nand {masker.MASK}\r\n") == 302
        call.refresh_from_db()
        assert call.result_text == self.LATE

    def test_mask_in_another_text_is_refused(self, client: Client, call: ToolCall, alice: User) -> None:
        make_late_result(call=call, result=self.LATE)
        client.force_login(alice)
        assert self.decide(client, call, f"Paid with {masker.MASK}") == 422
        call.refresh_from_db()
        assert call.status == CallStatus.INTERRUPTED

    def test_own_text_is_accepted(self, client: Client, call: ToolCall, alice: User) -> None:
        make_late_result(call=call, result=self.LATE)
        client.force_login(alice)
        assert self.decide(client, call, "Paid.") == 302
        call.refresh_from_db()
        assert call.result_text == "Paid."


@pytest.mark.parametrize("role", list(Role))
def test_pages_show_no_secret(client: Client, call: ToolCall, role: Role) -> None:
    client.force_login(make_user(role=role))
    for page in pages(call):
        response = client.get(page)
        assert response.status_code == 200, page
        text = response.content.decode()
        assert KEY not in text, page
        assert WORD not in text, page


def test_stored_values_are_not_masked(client: Client, call: ToolCall, alice: User) -> None:
    client.force_login(alice)
    for page in pages(call):
        client.get(page)
    call.refresh_from_db()
    assert KEY in call.args
    assert WORD in call.args


def test_admin_may_show_secrets_for_a_limited_time(admin: Client, call: ToolCall) -> None:
    page = f"/sessions/{call.session_id}/calls/{call.pk}/"
    assert "Show secrets" in visible_text(admin.get(page))
    assert record_reauthentication(admin).post("/accounts/secrets/", {"next": page}).headers["Location"] == page
    shown = admin.get(page)
    assert KEY in shown.content.decode()
    assert "Hide secrets" in visible_text(shown)
    assert list_entries("unmasked") == [("unmasked", "bob", {"minutes": 10, "page": page})]


@pytest.mark.parametrize("ago", [timedelta(), timedelta(minutes=16)])
def test_showing_secrets_requires_the_password(bob: User, call: ToolCall, ago: timedelta) -> None:
    browser, page = sign_in(Client(), bob, ago=ago), f"/sessions/{call.session_id}/"
    asked = browser.post("/accounts/secrets/", {"next": page})
    assert asked.headers["Location"].startswith("/accounts/again/?next=")
    assert KEY not in browser.get(page).content.decode()
    assert list_entries("unmasked") == []
    bob.set_password(PASSWORD)
    bob.save()
    browser = sign_in(Client(), bob, ago=ago)
    browser.post("/accounts/secrets/", {"next": page})
    assert browser.post("/accounts/again/", {"password": "wrong"}).status_code == 200
    assert KEY not in browser.get(page).content.decode()
    assert browser.post("/accounts/again/", {"password": PASSWORD}).headers["Location"] == page
    assert KEY in browser.get(page).content.decode()
    assert list_entries("unmasked") == [("unmasked", "bob", {"minutes": 10, "page": page})]


def test_secrets_can_be_hidden_again(admin: Client, call: ToolCall) -> None:
    page = f"/sessions/{call.session_id}/calls/{call.pk}/"
    record_reauthentication(admin).post("/accounts/secrets/", {"next": page})
    assert admin.post("/accounts/secrets/hide/", {"next": page}).headers["Location"] == page
    assert KEY not in admin.get(page).content.decode()


def test_permission_to_show_secrets_expires(admin: Client, call: ToolCall, monkeypatch: pytest.MonkeyPatch) -> None:
    page = f"/sessions/{call.session_id}/calls/{call.pk}/"
    record_reauthentication(admin).post("/accounts/secrets/", {"next": page})
    later = clock.now() + unmasking.SHOWN_FOR + timedelta(seconds=2)
    monkeypatch.setattr("harness_site.accounts.unmasking.clock.now", lambda: later)
    assert KEY not in admin.get(page).content.decode()


@pytest.mark.parametrize("role", [Role.AUDITOR, Role.APPROVER])
def test_other_roles_may_not_show_secrets(client: Client, call: ToolCall, role: Role) -> None:
    client.force_login(make_user(role=role))
    page = f"/sessions/{call.session_id}/calls/{call.pk}/"
    assert "Show secrets" not in visible_text(client.get(page))
    assert client.post("/accounts/secrets/", {"next": page}).status_code == 403
    assert KEY not in client.get(page).content.decode()
    assert list_entries("unmasked") == []


def test_workspace_may_allow_approvers_to_show_secrets(client: Client, call: ToolCall, alice: User) -> None:
    MaskingSettings.objects.create(workspace=make_workspace(), reveal_role=Role.APPROVER)
    client.force_login(alice)
    page = f"/sessions/{call.session_id}/calls/{call.pk}/"
    record_reauthentication(client).post("/accounts/secrets/", {"next": page})
    assert KEY in client.get(page).content.decode()


def test_lower_role_hides_secrets_at_once(admin: Client, bob: User, call: ToolCall) -> None:
    page = f"/sessions/{call.session_id}/calls/{call.pk}/"
    record_reauthentication(admin).post("/accounts/secrets/", {"next": page})
    bob.memberships.update(role=Role.AUDITOR)
    assert KEY not in admin.get(page).content.decode()


def test_secrets_are_shown_in_one_workspace_only(admin: Client, bob: User, call: ToolCall) -> None:
    record_reauthentication(admin).post("/accounts/secrets/", {"next": "/sessions/"})
    second = make_workspace(slug="second")
    bob.memberships.create(workspace=second, role=Role.ADMIN)
    theirs = make_session(workspace=second, title=f"With {KEY}")
    admin.post("/accounts/workspace/", {"workspace": "second"})
    assert KEY not in admin.get(f"/sessions/{theirs.pk}/").content.decode()


def test_secrets_are_shown_to_one_reader_only(admin: Client, client: Client, call: ToolCall, carol: User) -> None:
    page = f"/sessions/{call.session_id}/"
    record_reauthentication(admin).post("/accounts/secrets/", {"next": page})
    client.force_login(carol)
    for _ in range(2):
        assert KEY in admin.get(page).content.decode()
        assert KEY not in client.get(page).content.decode()
    assert masker.is_masking_active()


@pytest.mark.parametrize("place", ["https://elsewhere.example/", "//elsewhere.example/", "javascript:alert(1)", ""])
def test_redirect_never_leaves_the_site(admin: Client, place: str) -> None:
    assert record_reauthentication(admin).post("/accounts/secrets/", {"next": place}).headers["Location"] == "/"


class TestSettings:
    FORM = {"names": "customer_no\n\n Customer No ", "words": "acme_*", "usual": "on", "reveal_role": "approver"}

    def test_workspace_defines_its_own_secret_words(self, admin: Client, client: Client, carol: User) -> None:
        assert admin.post("/settings/masking/", self.FORM).headers["Location"] == "/settings/masking/"
        session = make_session(title="For acme_4711")
        client.force_login(carol)
        assert "For ‹masked›" in visible_text(client.get(f"/sessions/{session.pk}/"))
        found = MaskingSettings.objects.get()
        assert (found.names, found.words, found.reveal_role) == ("customer_no\nCustomer No", "acme_*", "approver")

    def test_change_is_recorded_without_the_words(self, admin: Client) -> None:
        admin.post("/settings/masking/", self.FORM)
        details = {"fields": ["names", "words", "reveal_role"]}
        assert list_entries() == [("masking_changed", "bob", details)]

    def test_page_shows_the_settings(self, admin: Client) -> None:
        admin.post("/settings/masking/", self.FORM)
        page = admin.get("/settings/masking/").content.decode()
        assert "customer_no" in page
        assert '<option value="approver" selected>' in page

    @pytest.mark.parametrize("word", ["*", "ab*", "a*b*c*d*e*f", "x" * 101])
    def test_word_that_would_mask_everything_is_refused(self, admin: Client, word: str) -> None:
        response = admin.post("/settings/masking/", self.FORM | {"words": word})
        assert response.status_code == 422
        assert not MaskingSettings.objects.exists()

    def test_settings_of_another_workspace_are_unchanged(self, admin: Client, client: Client) -> None:
        admin.post("/settings/masking/", self.FORM)
        identity_provider = make_workspace(slug="elsewhere")
        session = make_session(title="For acme_4711", workspace=identity_provider)
        client.force_login(make_user(name="eve", workspace=identity_provider))
        assert "For acme_4711" in visible_text(client.get(f"/sessions/{session.pk}/"))
