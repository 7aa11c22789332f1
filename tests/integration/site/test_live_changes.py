from datetime import timedelta

import pytest
from pytest_django import DjangoAssertNumQueries

from checkpoints.db.clock import read_database_time
from checkpoints.models import Session
from harness_site.live.changed_sessions import OVERLAP, ChangeCursor, list_session_changes_since_with_overlap
from tests.support.factories import make_session, make_workspace

pytestmark = pytest.mark.django_db


def touch(session: Session, revision: int, *, ago: timedelta = timedelta()) -> None:
    Session.objects.filter(pk=session.pk).update(revision=revision, updated_at=read_database_time("default") - ago)


def told(cursor: ChangeCursor) -> list[tuple[int, int]]:
    return [(change.session, change.revision) for change in cursor.fetch_new_changes()]


def test_change_is_reported_once(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    session = make_session()
    cursor = ChangeCursor(read_database_time("default"))
    assert told(cursor) == [(session.pk, 0)]
    with django_assert_num_queries(1):
        assert told(cursor) == []


def test_each_revision_is_reported() -> None:
    session = make_session()
    cursor = ChangeCursor(read_database_time("default"))
    cursor.fetch_new_changes()
    touch(session, 1)
    assert told(cursor) == [(session.pk, 1)]
    touch(session, 2)
    assert told(cursor) == [(session.pk, 2)]


def test_late_committed_change_is_reported() -> None:
    early, late = make_session(), make_session()
    cursor = ChangeCursor(read_database_time("default"))
    cursor.fetch_new_changes()
    touch(early, 1)
    cursor.fetch_new_changes()
    touch(late, 1, ago=OVERLAP / 2)  # written before the other, committed after it was read
    assert told(cursor) == [(late.pk, 1)]


def test_change_older_than_the_overlap_is_not_reported() -> None:
    session = make_session()
    touch(session, 1, ago=OVERLAP * 2)
    assert told(ChangeCursor(read_database_time("default"))) == []


def test_reported_changes_are_forgotten_after_the_overlap() -> None:
    session, other = make_session(), make_session()
    cursor = ChangeCursor(read_database_time("default"))
    cursor.fetch_new_changes()
    Session.objects.update(updated_at=read_database_time("default") - OVERLAP * 2)
    touch(other, 1)
    cursor.fetch_new_changes()
    assert list(cursor._told) == [other.pk]
    assert session.pk not in cursor._told


def test_changes_of_one_workspace() -> None:
    make_session()
    foreign = make_session(workspace=make_workspace(slug="elsewhere"))
    found = list_session_changes_since_with_overlap(read_database_time("default"), workspace=foreign.workspace_id)
    assert [change.session for change in found] == [foreign.pk]
