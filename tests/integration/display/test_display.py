"""Display settings: time zone, theme and language of the reader."""

from datetime import UTC, datetime

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from checkpoints.enums import Role
from checkpoints.models import Session
from harness_site.accounts.models import Membership
from harness_site.display.models import DisplayPreference
from tests.support.factories import make_call, make_session, make_user
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db

MOMENT = datetime(2026, 1, 2, 23, 30, tzinfo=UTC)


@pytest.fixture
def page() -> str:
    session: Session = make_session()
    make_call(session=session, issued_at=MOMENT, interrupted_at=MOMENT)
    return f"/sessions/{session.pk}/calls/"


@pytest.fixture
def reader(client: Client) -> Client:
    client.force_login(make_user(name="alice"))
    return client


def test_time_zone_of_the_account_overrides_the_browser(reader: Client, page: str) -> None:
    exact = 'datetime="2026-01-02T23:30:00.000Z" title="2026-01-02 23:30:00 UTC"'
    assert f'{exact} data-time="at">2026-01-02 23:30:00<' in reader.get(page).content.decode()
    reader.cookies["harness_zone"] = "Asia%2FKolkata"
    assert f'{exact} data-time="at">2026-01-03 05:00:00<' in reader.get(page).content.decode()
    answer = reader.post("/accounts/display/", {"time_zone": " America/New_York ", "theme": "dark"}, follow=True)
    assert "Times on the pages are in America/New_York now." in visible_text(answer)
    shown = reader.get(page).content.decode()
    assert f'{exact} data-time="at">2026-01-02 18:30:00<' in shown
    assert '<html lang="en" data-theme="dark"' in shown
    assert timezone.get_current_timezone_name() == "UTC"


def test_who_cannot_decide_has_no_choice_about_the_next_call(reader: Client) -> None:
    assert "opens_next_call" in reader.get("/accounts/display/").content.decode()
    reader.post("/accounts/display/", {"opens_next_call": "on"})
    Membership.objects.update(role=Role.AUDITOR)
    assert "opens_next_call" not in reader.get("/accounts/display/").content.decode()
    assert reader.post("/accounts/display/", {"theme": "dark"}).status_code == 302
    assert DisplayPreference.objects.values_list("theme", "opens_next_call").get() == ("dark", True)


def test_choice_is_kept_for_the_next_sign_in(reader: Client, page: str, client: Client) -> None:
    reader.post("/accounts/display/", {"time_zone": "Asia/Tokyo", "theme": "light"})
    other = Client()
    other.force_login(User.objects.get(username="alice"))
    assert "2026-01-03 08:30:00" in other.get(page).content.decode()


def test_language_of_the_account_overrides_the_browser(reader: Client) -> None:
    def read_language(accepted: str) -> str:
        response = reader.get("/accounts/display/", headers={"accept-language": accepted})
        return response.content.decode().partition('<html lang="')[2][:2]

    assert (read_language(""), read_language("de-AT,de;q=0.9"), read_language("xx")) == ("en", "de", "en")
    reader.post("/accounts/display/", {"time_zone": "", "language": "de", "theme": ""})
    assert read_language("en") == "de"
    refused = reader.post("/accounts/display/", {"time_zone": "", "language": "xx", "theme": ""})
    assert (refused.status_code, read_language("en")) == (422, "de")


@pytest.mark.parametrize("text", ["europe/berlin", "EUROPE/BERLIN", " Europe/Berlin "])
def test_time_zone_in_any_letter_case_is_stored_under_its_name(reader: Client, text: str) -> None:
    assert reader.post("/accounts/display/", {"time_zone": text, "theme": ""}).status_code == 302
    assert DisplayPreference.objects.get().time_zone == "Europe/Berlin"


@pytest.mark.parametrize(
    ("text", "zone"),
    [("Berlin", "Europe/Berlin"), ("europe/berlim", "Europe/Berlin"), ("new york", "America/New_York")],
)
def test_time_zone_that_does_not_exist_gets_a_suggestion(reader: Client, text: str, zone: str) -> None:
    answer = reader.post("/accounts/display/", {"time_zone": text, "theme": ""})
    assert answer.status_code == 422
    assert f"There is no time zone with this name. Did you mean {zone}?" in visible_text(answer)


@pytest.mark.parametrize("name", ["Mars/Olympus", "../etc/passwd", "Europe", "x" * 65])
def test_unknown_time_zone_is_refused(reader: Client, name: str) -> None:
    answer = reader.post("/accounts/display/", {"time_zone": name, "theme": ""})
    assert answer.status_code == 422
    assert "There is no time zone with this name." in visible_text(answer) or "at most 64 characters" in visible_text(
        answer
    )
    assert not DisplayPreference.objects.exists()


@pytest.mark.parametrize("cookie", ["Mars/Olympus", "..%2F..%2Fetc%2Fpasswd", "%00", "x" * 4000, "%ff%fe"])
def test_cookie_with_an_invalid_time_zone_is_ignored(reader: Client, page: str, cookie: str) -> None:
    reader.cookies["harness_zone"] = cookie
    assert "2026-01-02 23:30:00<" in reader.get(page).content.decode()
    assert "Times on the pages are in UTC now." in visible_text(reader.get("/accounts/display/"))
