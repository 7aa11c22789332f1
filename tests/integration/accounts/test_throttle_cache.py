"""The cache that counts attempts: values are JSON, whoever writes the rows."""

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
    """Runs code in whoever reads a pickle of it."""

    ran = False

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return setattr, (Exploit, "ran", True)


@pytest.mark.parametrize("value", [[1.5, 2.5], "y", True, 7, {"a": [None]}])
def test_values_come_back(value: object) -> None:
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


def test_what_is_over_is_not_there() -> None:
    cache.set("key", 1, 60)
    ThrottleEntry.objects.update(expires=clock.now() - timedelta(seconds=1))
    assert cache.get("key") is None
    assert cache.add("key", 2, 60) is True
    assert cache.get("key") == 2


def test_what_is_there_is_not_replaced() -> None:
    assert cache.add("key", 1, 60) is True
    assert cache.add("key", 2, 60) is False
    assert cache.get("key") == 1
    assert cache.touch("key", 120) is True
    assert (cache.delete("key"), cache.delete("key"), cache.touch("key")) == (True, False, False)


def test_what_has_no_end_stays() -> None:
    cache.set("key", 1, None)
    assert ThrottleEntry.objects.get().expires.year == 9999
    cache.clear()
    assert cache.get("key") is None


def test_expired_rows_go_by_themselves() -> None:
    for number in range(30):
        cache.set(f"old-{number}", 1, 60)
    ThrottleEntry.objects.update(expires=clock.now() - timedelta(seconds=1))
    for _ in range(60):
        cache.set("new", 1, 60)
    assert ThrottleEntry.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_of_several_at_once_one_succeeds() -> None:
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
    """Settings that would read pickles from the shared database are an error before the site starts."""

    @pytest.fixture(autouse=True)
    def as_it_was(self) -> None:
        assert [message.id for message in run_checks()] == []

    def test_a_cache_of_pickles(self, settings: Settings) -> None:
        settings.CACHES = {
            **settings.CACHES,
            "other": {"BACKEND": "django.core.cache.backends.db.DatabaseCache", "LOCATION": "other"},
        }
        assert [message.id for message in run_checks()] == ["harness.E001"]

    def test_sessions_of_pickles(self, settings: Settings) -> None:
        settings.SESSION_SERIALIZER = "django.contrib.sessions.serializers.PickleSerializer"
        assert [message.id for message in run_checks()] == ["harness.E002"]
