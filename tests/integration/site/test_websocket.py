"""The websocket: access, messages and closing."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client, override_settings

from checkpoints.db import clock
from checkpoints.enums import Role
from checkpoints.models import Session
from harness_site.accounts.models import FactorScope, Membership, SecondFactorRequirement
from harness_site.asgi import application
from harness_site.core import formatting
from harness_site.live import change_feed_and_sealing_task, consumers
from harness_site.live.changed_sessions import SessionChange
from tests.support.factories import make_session, make_user, make_workspace
from tests.support.second_factors import make_totp
from tests.support.websocket_client import Browser

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.asyncio]

ORIGIN = "http://127.0.0.1:8000"


@sync_to_async
def signed_in(user: User) -> tuple[Client, str]:
    client = Client()
    client.force_login(user)
    return client, client.cookies[settings.SESSION_COOKIE_NAME].value


def socket(cookie: str, *, origin: str = ORIGIN, host: str = "127.0.0.1:8000", query: str = "") -> Browser:
    cookies = f"{settings.SESSION_COOKIE_NAME}={cookie}"
    headers = {"host": host, "origin": origin, "cookie": cookies}
    return Browser(application, "/ws/live/", query=query, headers=headers)


@asynccontextmanager
async def listening(cookie: str, *, query: str = "") -> AsyncIterator[Browser]:
    browser = socket(cookie, query=query)
    assert await browser.connect()
    try:
        yield browser
    finally:
        await browser.leave()


async def change(session: Session, revision: int = 2) -> None:
    await change_feed_and_sealing_task.send_changes_to_workspace_viewers(
        [SessionChange(session.workspace_id, session.pk, revision, clock.now())]
    )


@pytest.fixture
def check_access_at_every_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the permission of the reader at every message."""
    monkeypatch.setattr(consumers, "TRUSTED_SECONDS", 0.0)


async def test_member_is_notified_of_a_change() -> None:
    session = await sync_to_async(make_session)()
    _, cookie = await signed_in(await sync_to_async(make_user)(role=Role.AUDITOR))
    async with listening(cookie) as browser:
        await change(session, 7)
        assert await browser.hears() == {"session": session.pk, "revision": 7}


async def test_member_is_not_notified_of_another_workspace() -> None:
    identity_provider = await sync_to_async(make_workspace)(slug="elsewhere")
    foreign = await sync_to_async(make_session)(workspace=identity_provider)
    _, cookie = await signed_in(await sync_to_async(make_user)())
    async with listening(
        cookie, query=f"since={formatting.format_iso_time(clock.now() - timedelta(hours=1))}"
    ) as browser:
        await change(foreign)
        assert await browser.hears_nothing()


@pytest.mark.parametrize(
    "origin",
    [
        "https://elsewhere.example",
        "http://127.0.0.1:8000.elsewhere.example",
        "http://127.0.0.1:9999",
        "http://localhost:8000",
        "null",
        "",
    ],
)
async def test_foreign_origin_is_refused(origin: str) -> None:
    _, cookie = await signed_in(await sync_to_async(make_user)())
    assert not await socket(cookie, origin=origin).connect()


async def test_unknown_host_is_refused() -> None:
    _, cookie = await signed_in(await sync_to_async(make_user)())
    identity_provider = "elsewhere.example"
    assert not await socket(cookie, origin=f"http://{identity_provider}", host=identity_provider).connect()


async def test_trusted_origin_is_accepted_behind_a_proxy() -> None:
    _, cookie = await signed_in(await sync_to_async(make_user)())
    with override_settings(CSRF_TRUSTED_ORIGINS=["https://harness.example"]):
        browser = socket(cookie, origin="https://harness.example")
        assert await browser.connect()
        await browser.leave()


@pytest.mark.parametrize("cookie", ["", "made-up"])
async def test_anonymous_is_told_that_they_are_signed_out(cookie: str) -> None:
    browser = socket(cookie)
    assert await browser.connect()
    assert await browser.hears() == consumers.SIGNED_OUT


async def test_non_member_is_told_that_they_are_signed_out() -> None:
    _, cookie = await signed_in(await sync_to_async(make_user)(role=None))
    browser = socket(cookie)
    assert await browser.connect()
    assert await browser.hears() == consumers.SIGNED_OUT
    await change(await sync_to_async(make_session)())
    assert await browser.hears_nothing()


@pytest.mark.usefixtures("check_access_at_every_message")
async def test_sign_out_closes_the_socket() -> None:
    session = await sync_to_async(make_session)()
    client, cookie = await signed_in(await sync_to_async(make_user)())
    async with listening(cookie) as browser:
        await sync_to_async(client.post)("/accounts/logout/")
        await change(session)
        assert await browser.hears() == consumers.SIGNED_OUT


@pytest.mark.usefixtures("check_access_at_every_message")
async def test_removed_membership_closes_the_socket() -> None:
    session = await sync_to_async(make_session)()
    user = await sync_to_async(make_user)()
    _, cookie = await signed_in(user)
    async with listening(cookie) as browser:
        await Membership.objects.filter(user=user).adelete()
        await change(session)
        assert await browser.hears() == consumers.SIGNED_OUT


@pytest.mark.usefixtures("check_access_at_every_message")
async def test_changed_role_closes_the_socket() -> None:
    session = await sync_to_async(make_session)()
    user = await sync_to_async(make_user)(role=Role.AUDITOR)
    _, cookie = await signed_in(user)
    async with listening(cookie) as browser:
        await Membership.objects.filter(user=user).aupdate(role=Role.APPROVER)
        await change(session)
        assert await browser.hears() == consumers.SIGNED_OUT


@pytest.mark.usefixtures("check_access_at_every_message")
async def test_required_second_factor_closes_the_socket_and_keeps_it_closed() -> None:
    session = await sync_to_async(make_session)()
    user = await sync_to_async(make_user)()
    _, cookie = await signed_in(user)
    async with listening(cookie) as browser:
        await SecondFactorRequirement.objects.acreate(
            workspace_id=session.workspace_id, scope=FactorScope.EVERYBODY, required_by="bob", required_at=clock.now()
        )
        await change(session)
        assert await browser.hears() == consumers.SIGNED_OUT
    browser = socket(cookie)
    assert await browser.connect()
    assert await browser.hears() == consumers.SIGNED_OUT
    await sync_to_async(make_totp)(user)
    async with listening(cookie) as browser:
        await change(session)
        assert await browser.hears() == {"session": session.pk, "revision": 2}


@pytest.mark.usefixtures("check_access_at_every_message")
async def test_inactive_account_gets_no_heartbeat() -> None:
    user = await sync_to_async(make_user)()
    _, cookie = await signed_in(user)
    async with listening(cookie) as browser:
        await User.objects.filter(pk=user.pk).aupdate(is_active=False)
        await change_feed_and_sealing_task.get_channel_layer_or_fail().group_send(
            change_feed_and_sealing_task.EVERYBODY, {"type": "live.heartbeat"}
        )
        assert await browser.hears() == consumers.SIGNED_OUT


async def test_heartbeat_contains_the_time() -> None:
    _, cookie = await signed_in(await sync_to_async(make_user)())
    async with listening(cookie) as browser:
        await change_feed_and_sealing_task.get_channel_layer_or_fail().group_send(
            change_feed_and_sealing_task.EVERYBODY, {"type": "live.heartbeat"}
        )
        assert list(await browser.hears()) == ["at"]


async def test_changes_during_the_page_load_are_sent_at_once() -> None:
    session = await sync_to_async(make_session)()
    _, cookie = await signed_in(await sync_to_async(make_user)())
    async with listening(
        cookie, query=f"since={formatting.format_iso_time(clock.now() - timedelta(minutes=1))}"
    ) as browser:
        assert await browser.hears() == {"session": session.pk, "revision": 0}


async def test_client_that_missed_too_much_reloads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "MISSED_LIMIT", 1)
    for _ in range(2):
        await sync_to_async(make_session)()
    _, cookie = await signed_in(await sync_to_async(make_user)())
    async with listening(
        cookie, query=f"since={formatting.format_iso_time(clock.now() - timedelta(minutes=1))}"
    ) as browser:
        assert await browser.hears() == {"session": None}
        assert await browser.hears_nothing()


@pytest.mark.parametrize("since", ["", "soon", "2026-01-01T00:00:00", "%00"])
async def test_invalid_time_is_ignored(since: str) -> None:
    await sync_to_async(make_session)()
    _, cookie = await signed_in(await sync_to_async(make_user)())
    async with listening(cookie, query=f"since={since}") as browser:
        assert await browser.hears_nothing()


async def test_messages_of_the_browser_are_ignored() -> None:
    session = await sync_to_async(make_session)()
    _, cookie = await signed_in(await sync_to_async(make_user)())
    async with listening(cookie) as browser:
        for said in ('{"type": "live.changed"}', "not json", ""):
            await browser.say(said)
        await change(session)
        assert await browser.hears() == {"session": session.pk, "revision": 2}


async def test_feed_runs_from_startup_to_shutdown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_feed_and_sealing_task, "POLL_SECONDS", 0.01)
    session = await sync_to_async(make_session)()
    _, cookie = await signed_in(await sync_to_async(make_user)())
    sent: list[dict[str, Any]] = []
    messages = iter(["lifespan.startup"])

    async with listening(cookie) as browser:

        async def receive() -> dict[str, Any]:
            message = next(messages, None)
            if message is not None:
                return {"type": message}
            await Session.objects.filter(pk=session.pk).aupdate(revision=9, updated_at=clock.now())
            while (heard := await browser.hears()) != {"session": session.pk, "revision": 9}:
                assert heard != {}
            return {"type": "lifespan.shutdown"}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await application({"type": "lifespan"}, receive, send)
    assert [message["type"] for message in sent] == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


@pytest.mark.parametrize(
    "since",
    [
        "0001-01-01T00:00:00Z",
        "0001-01-01T00:00:00%2B14:00",
        "9999-12-31T23:59:59-14:00",
        "2026-02-30",
        "9" * 500,
        "%ff",
    ],
)
async def test_extreme_time_does_not_close_the_socket(since: str) -> None:
    session = await sync_to_async(make_session)()
    _, cookie = await signed_in(await sync_to_async(make_user)(role=Role.AUDITOR))
    async with listening(cookie, query=f"since={since}") as browser:
        await change(session, 7)
        assert await browser.hears() == {"session": session.pk, "revision": 7}
