"""Times as microseconds since the epoch, computed equally by the database and Python."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from checkpoints.models import Run
from harness_site.core.epoch_microseconds import Instant, convert_to_datetime, convert_to_microseconds
from tests.support.factories import make_run, make_session

pytestmark = pytest.mark.django_db

MOMENTS = (
    datetime(2025, 3, 4, 10, 42, 7, tzinfo=UTC),
    datetime(2025, 3, 4, 10, 42, 7, 1, tzinfo=UTC),
    datetime(2025, 3, 4, 10, 42, 7, 118_000, tzinfo=UTC),
    datetime(2025, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(1969, 7, 20, 20, 17, 40, 500_000, tzinfo=UTC),
    datetime(2241, 12, 31, 23, 59, 59, 123_457, tzinfo=timezone(timedelta(hours=5, minutes=30))),
)


def test_column_is_read_as_microseconds() -> None:
    session = make_session()
    for at in MOMENTS:
        make_run(session=session, started_at=at)
    read = Run.objects.order_by("number").values_list(Instant("started_at"), Instant("ended_at"))
    assert list(read) == [(convert_to_microseconds(at), None) for at in MOMENTS]


def test_time_set_by_the_database_is_read() -> None:
    run = make_run(session=make_session())
    (read,) = Run.objects.values_list(Instant("heartbeat_at"), flat=True)
    assert read == convert_to_microseconds(run.heartbeat_at)


@pytest.mark.parametrize("at", MOMENTS)
def test_conversions_are_inverse(at: datetime) -> None:
    assert convert_to_datetime(convert_to_microseconds(at)) == at
