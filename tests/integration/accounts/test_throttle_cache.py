"""The cache of rate limits stores JSON, and never executes stored rows."""

import pickle
import threading
from base64 import b64encode
from datetime import timedelta

import pytest
from django.core.cache import cache, caches
from django.core.checks import run_checks
from django.db import connection
from pytest_django.fixtures import Settings

from checkpoints.db import clock
from harness_site.accounts.models import ThrottleEntry

pytestmark = pytest.mark.django_db


class Exploit:
    """Object whose pickle runs code when it is loaded."""

    ran = False

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return setattr, (Exploit, "ran", True)


@pytest.mark.parametrize("value", [[1.5, 2.5], "y", True, 7, {"a": [None]}])
def test_values_are_restored(value: object) -> None:
    cache.set("key", value, 60)
    assert cache.get("key") == value
    cache.set("key", "another", 60)
    assert cache.get("key") == "another"


def test_stored_row_runs_no_code() -> None:
    pickled = b64encode(pickle.dumps(Exploit())).decode()
    later = clock.now() + timedelta(hours=1)
    ThrottleEntry.objects.create(cache_key=cache.make_key("key"), value=pickled, expires=later)
    assert cache.get("key", "nothing") == "nothing"
    assert Exploit.ran is False


def test_expired_value_is_not_returned() -> None:
    cache.set("key", 1, 60)
    ThrottleEntry.objects.update(expires=clock.now() - timedelta(seconds=1))
    assert cache.get("key") is None
    assert cache.add("key", 2, 60) is True
    assert cache.get("key") == 2


def test_add_does_not_replace_a_value() -> None:
    assert cache.add("key", 1, 60) is True
    assert cache.add("key", 2, 60) is False
    assert cache.get("key") == 1
    assert cache.touch("key", 120) is True
    assert (cache.delete("key"), cache.delete("key"), cache.touch("key")) == (True, False, False)


def test_value_without_timeout_is_kept() -> None:
    cache.set("key", 1, None)
    assert ThrottleEntry.objects.get().expires.year == 9999
    cache.clear()
    assert cache.get("key") is None


def test_expired_rows_are_removed() -> None:
    for number in range(30):
        cache.set(f"old-{number}", 1, 60)
    ThrottleEntry.objects.update(expires=clock.now() - timedelta(seconds=1))
    for _ in range(60):
        cache.set("new", 1, 60)
    assert ThrottleEntry.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_one_of_several_concurrent_adds_succeeds() -> None:
    start, added = threading.Barrier(6), list[bool]()

    def add() -> None:
        start.wait()
        try:
            added.append(caches["default"].add("key", 1, 60))
        finally:
            connection.close()

    threads = [threading.Thread(target=add) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(added) == [False] * 5 + [True]


class TestChecks:
    """System checks refuse settings that would load pickles from the database."""

    @pytest.fixture(autouse=True)
    def as_it_was(self) -> None:
        assert [message.id for message in run_checks()] == []

    def test_pickle_cache_is_an_error(self, settings: Settings) -> None:
        settings.CACHES = {
            **settings.CACHES,
            "other": {"BACKEND": "django.core.cache.backends.db.DatabaseCache", "LOCATION": "other"},
        }
        assert [message.id for message in run_checks()] == ["harness.E001"]

    def test_pickle_sessions_are_an_error(self, settings: Settings) -> None:
        settings.SESSION_SERIALIZER = "django.contrib.sessions.serializers.PickleSerializer"
        assert [message.id for message in run_checks()] == ["harness.E002"]
