"""Print as JSON what readers of two languages see of the site below `i18n_patterns`: `python -m …clinic.languages`."""

import asyncio
import json
import re
import sys
from io import StringIO
from typing import Any

import django
from django.conf import settings

#: Whether the addresses of English pages begin with their language, too.
WITH_DEFAULT = sys.argv[1:] == ["all"]


def main() -> None:
    django.setup()
    settings.ROOT_URLCONF = "tests.integration.embedding.clinic.language_urls"
    from django.core.management import call_command

    call_command("check", fail_level="WARNING")
    english, german = ("/en/harness/" if WITH_DEFAULT else "/harness/"), "/de/harness/"
    print(json.dumps({"pages": pages(english, german), "live": asyncio.run(live(english, german))}))


def pages(english: str, german: str) -> dict[str, Any]:
    from django.contrib.auth.models import User
    from django.core.management import call_command
    from django.test import Client

    from checkpoints import SyncCheckpointer
    from harness_site.display.display_preferences import LANGUAGE_KEY
    from tests.support.client_login import sign_in

    with SyncCheckpointer() as checkpointer:
        checkpointer.start_session("order-17")
        said = [{"role": "user", "content": "Pay. " * 3000}, {"role": "assistant", "content": "Paid."}]
        checkpointer.save_checkpoint("order-17", said, None, 0.0)
    owner = User.objects.create_superuser("owner", password="correct-horse-battery")
    call_command("add_member", "owner", "admin", verbosity=0)
    client, stranger = sign_in(Client(), owner), Client()
    seen: dict[str, Any] = {"outside": []}
    for home in (english, german, english):
        for page in ("sessions/", "sessions/1/", "review/", "settings/members/", "audit/", "accounts/"):
            response = client.get(f"{home}{page}")
            language = "de" if home == german else "en" if WITH_DEFAULT else settings.LANGUAGE_CODE
            assert (response.status_code, response["Content-Language"]) == (200, language)
            found = re.findall(r'(?:href|action|hx-get|hx-post|ws-connect)="(/[^"]*)"', response.content.decode())
            assert len(found) > 5
            inside = (home, "/static/")
            seen["outside"] += [f"{home}{page}: {link}" for link in found if not link.startswith(inside)]
            assert page == "accounts/" or ' aria-current="page"' in response.content.decode()
    seen["sign-in"] = [stranger.get(f"{home}review/")["Location"] for home in (english, german)]
    printed = StringIO()
    call_command("create_token", "ci", "agent", stdout=printed)
    program = {"Authorization": f"Bearer {printed.getvalue().strip()}"}
    seen["api"] = []
    for page, home in ((german, english), (english, german)):
        client.get(f"{page}sessions/")
        seen["api"].append(stranger.get(f"{home}api/v1/sessions", headers=program).status_code)
    session = client.session
    session[LANGUAGE_KEY] = "de"
    session.save()
    chosen = client.get(f"{english}sessions/")
    seen["chosen"] = [
        chosen.status_code,
        chosen["Content-Language"],
        f'href="{german}review/"' in chosen.content.decode(),
    ]
    return seen


async def live(english: str, german: str) -> list[bool]:
    from django.contrib.auth.models import User
    from django.test import AsyncClient

    from tests.integration.embedding.clinic.asgi import application
    from tests.support.websocket_client import Browser

    client = AsyncClient()
    await client.aforce_login(await User.objects.aget(username="owner"))
    cookie = f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"
    headers = {"cookie": cookie, "host": "testserver", "origin": "http://testserver"}
    connected = []
    for home in (english, german):
        browser = Browser(application, f"{home}ws/live/", headers=headers)
        connected.append(await browser.connect())
        await browser.leave()
    return connected


if __name__ == "__main__":
    main()
