"""Print as JSON what the clinic's staff see of the site: `python -m …clinic.visit`."""

import asyncio
import json
import re
from contextlib import suppress
from io import StringIO
from typing import Any

import django

#: Headers of the pages of the site that the pages of the project do not get.
ADDED_HEADERS = (
    "Cache-Control",
    "Content-Language",
    "Content-Security-Policy",
    "Cross-Origin-Resource-Policy",
    "Permissions-Policy",
)


def main() -> None:
    django.setup()
    from django.core.management import call_command

    call_command("check", fail_level="WARNING")
    print(json.dumps({**pages(), **neighbours(), "live": asyncio.run(live())}))


def pages() -> dict[str, Any]:
    """A third of the addresses of the table of the site, below the prefix: those that answer an admin differently.

    An exhaustive run asks for all of them.
    """
    from django.contrib.auth.models import User
    from django.core.management import call_command
    from django.test import Client

    from checkpoints.models import Workspace
    from tests.integration.accounts.test_url_access import things
    from tests.support.client_login import sign_in
    from tests.support.exhaustive_mode import choose_each
    from tests.support.url_table import TABLE
    from tests.support.url_table.line import WHO

    named = things(Workspace.objects.get())
    owner = User.objects.create_superuser("owner", password="correct-horse-battery")
    call_command("add_member", "owner", "admin", verbosity=0)
    client = sign_in(Client(), owner)
    different: dict[str, int] = {}
    links: set[str] = set()
    lines = [*choose_each(3, TABLE), *(line for line in TABLE if line.route.startswith("accounts/workspace/"))]
    for line in lines:
        path = f"/harness{line.path.format(**named)}"
        response = client.get(path)
        if response.status_code != line.get[WHO.index("admin")]:
            different[path] = response.status_code
        body = b"" if response.streaming else response.content
        if response["Content-Type"].startswith("text/html"):
            assert b"The clinic's own frame" not in body, path
            links |= {*re.findall(r'(?:href|action|src|hx-get|hx-post|ws-connect)="(/[^"]*)"', body.decode())}
        if "Location" in response.headers:
            links.add(response.headers["Location"])
    return {
        **writes(client),
        "asked": len(lines),
        "different": different,
        "outside": sorted(link for link in links if not link.startswith(("/harness/", "/static/", "#", "?"))),
        "typed": typed_sign_in(),
        "styles": client.get("/static/css/tokens.css").status_code,
    }


def writes(client: Any) -> dict[str, Any]:
    """What a decision and a request of a program leave, in a project whose views run inside transactions."""
    from django.core.management import call_command
    from django.db import connection
    from django.test import Client
    from django.urls import resolve

    from checkpoints import SyncCheckpointer, ToolRegistry
    from checkpoints.exceptions import ApprovalRequired
    from checkpoints.models import Session, ToolCall

    with SyncCheckpointer() as checkpointer, suppress(ApprovalRequired):
        registry = ToolRegistry(checkpointer=checkpointer, session_id="to approve")
        registry.tool(requires_approval=True)(pay)
        checkpointer.start_session("to approve")
        registry.dispatch("pay", {"amount": 4}, call_id="call_1")
    call = ToolCall.objects.get(call_id="call_1", session__session_id="to approve")
    form = {"revision": call.revision, "kind": "approve", "reason": "The invoice is right."}
    decided = client.post(f"/harness/review/calls/{call.pk}/", form)
    call.refresh_from_db()
    printed = StringIO()
    call_command("create_token", "desk", "agent", stdout=printed)
    written = Client().post(
        "/harness/api/v1/sessions",
        json.dumps({"session_id": "api-1", "agent": "desk"}),
        content_type="application/json",
        headers={"Authorization": f"Bearer {printed.getvalue().strip()}", "Idempotency-Key": "1"},
    )
    started = Session.objects.filter(session_id="api-1").values_list("session_id", flat=True).first()

    def is_atomic(path: str) -> bool:
        from django.core.handlers.base import BaseHandler

        view = resolve(path).func
        return BaseHandler().make_view_atomic(view) is not view

    assert connection.settings_dict["ATOMIC_REQUESTS"]
    return {
        "decided": [decided.status_code, call.status],
        "written": [written.status_code, started],
        "atomic": [is_atomic("/prices/"), is_atomic("/harness/review/")],
    }


def pay(amount: int) -> str:
    return f"paid {amount}"


def typed_sign_in() -> list[Any]:
    """Where somebody who asks for a page is led, and where once they have typed their password."""
    from django.test import Client

    client = Client()
    asked = client.get("/harness/review/")
    typed = client.post(asked["Location"], {"username": "owner", "password": "correct-horse-battery"})
    return [asked["Location"], typed.status_code, typed["Location"]]


def neighbours() -> dict[str, Any]:
    """Pages of the clinic itself, which ask nobody to sign in and take what headers they like."""
    from django.contrib.auth.models import User
    from django.test import Client

    from harness_site.display.display_preferences import LANGUAGE_KEY
    from harness_site.display.time_zones import SESSION_KEY as TIME_ZONE_KEY

    client = Client()
    client.force_login(User.objects.get(username="owner"))
    session = client.session
    session[TIME_ZONE_KEY], session[LANGUAGE_KEY] = "Asia/Tokyo", "de"
    session.save()
    stranger = Client()
    return {
        "page of the site": look(client, "/harness/review/"),
        "zone": client.get("/zone/", headers={"Accept-Language": "de"}).content.decode(),
        "prices": look(stranger, "/prices/"),
        "admin": look(client, "/admin/auth/user/1/change/"),
        "below the prefix": look(stranger, "/harness/opening-hours/"),
        "nowhere": look(stranger, "/harness/nowhere/"),
        "sign-in of the clinic": look(stranger, "/inactive/"),
        "own policy": look(stranger, "/own-policy/"),
    }


def look(client: Any, path: str) -> list[Any]:
    """The status of a page, and those headers that the site gives to its own."""
    response = client.get(path)
    return [response.status_code, {name: value for name, value in response.headers.items() if name in ADDED_HEADERS}]


async def live() -> bool:
    """Whether a websocket below the prefix lets somebody in who is signed in."""
    from django.conf import settings
    from django.test import AsyncClient

    from tests.integration.embedding.clinic.asgi import application
    from tests.support.websocket_client import Browser

    client = AsyncClient()
    user = await owner()
    await client.aforce_login(user)
    cookie = f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"
    headers = {"cookie": cookie, "host": "testserver", "origin": "http://testserver"}
    browser = Browser(application, "/harness/ws/live/", headers=headers)
    connected = await browser.connect()
    await browser.leave()
    return connected


async def owner() -> Any:
    from django.contrib.auth.models import User

    return await User.objects.aget(username="owner")


if __name__ == "__main__":
    main()
