"""Reads whose statement is made once, held against the same query made anew."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from threading import Event
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.db.models import Count, F, QuerySet, Window
from django.db.models.functions import RowNumber
from django.db.models.sql.compiler import SQLCompiler
from django.utils.connection import ConnectionDoesNotExist

from checkpoints.models import Run, Session, ToolCall
from checkpoints.prepared import Prepared
from tests.support.factories import THEN, make_call, make_run, make_session

pytestmark = pytest.mark.django_db

Queries = Callable[[int], AbstractContextManager[object]]


@Prepared
def named(session_id: str) -> QuerySet[Session]:
    return Session.objects.filter(session_id=session_id).select_related("workspace")


@Prepared
def since(moment: datetime, status: str) -> QuerySet[ToolCall, tuple[str, str]]:
    calls = ToolCall.objects.filter(issued_at__gte=moment).exclude(status=status)
    return calls.order_by("pk").values_list("call_id", "status")


@Prepared
def of_runs(runs: list[UUID]) -> QuerySet[ToolCall, str]:
    return ToolCall.objects.filter(run__among=runs).order_by("call_id").values_list("call_id", flat=True)


@Prepared
def with_ids(session_ids: list[str], newest: int) -> QuerySet[Session]:
    found = Session.objects.filter(session_id__among=session_ids, pk__lte=newest)
    return found.annotate(runs_made=Count("runs")).order_by("pk")


@Prepared
def with_run(session: int) -> QuerySet[ToolCall]:
    return ToolCall.objects.filter(session=session).select_related("run").order_by("pk")


@Prepared
def first_two(number: int) -> QuerySet[Run]:
    return Run.objects.filter(number__gte=number).order_by("number")[:2]


@Prepared
def newest_call_of_each_run(session: int) -> QuerySet[ToolCall, str]:
    place = Window(RowNumber(), partition_by="run", order_by=F("issued_at").desc())
    calls = ToolCall.objects.filter(session=session).annotate(place=place)
    return calls.filter(place=1).values_list("call_id", flat=True)


@pytest.fixture
def sessions() -> list[Session]:
    found = [make_session(session_id=f"order-{number}") for number in (17, 18, 19)]
    for each in found:
        run = make_run(session=each)
        for hours in range(each.pk % 3 + 1):
            make_call(
                session=each, run=run, call_id=f"{each.session_id}-{hours}", issued_at=THEN + timedelta(hours=hours)
            )
    return found


def test_each_call_has_its_own_values(sessions: list[Session]) -> None:
    for each in sessions:
        (found,) = named(each.session_id)
        assert (found.pk, found.title, found.updated_at) == (
            each.pk,
            each.title,
            Session.objects.get(pk=each.pk).updated_at,
        )
        assert found.workspace == each.workspace
    assert named("order-20") == []


def test_a_filter_on_windows_has_the_values_of_each_call(sessions: list[Session]) -> None:
    found = [newest_call_of_each_run(each.pk) for each in sessions]

    assert found == [[f"{each.session_id}-{each.pk % 3}"] for each in sessions]


@pytest.mark.parametrize("hours", [0, 1, 5])
def test_times_and_words_are_compared_as_in_a_query_made_anew(sessions: list[Session], hours: int) -> None:
    asked = (THEN + timedelta(hours=hours), "failed")
    assert since(*asked) == list(since.build(*asked))
    assert bool(since(*asked)) is (hours < 5)


@pytest.mark.parametrize("many", [0, 1, 3])
def test_any_number_of_values_goes_into_one_statement(
    sessions: list[Session], many: int, django_assert_num_queries: Queries
) -> None:
    runs = list(Run.objects.order_by("session").values_list("pk", flat=True))[:many]
    with django_assert_num_queries(1):
        found = of_runs(runs)
    assert found == list(of_runs.build(runs))
    assert found == sorted(ToolCall.objects.filter(run__in=runs).values_list("call_id", flat=True))


def test_annotations_and_quotes_come_through(sessions: list[Session]) -> None:
    odd = make_session(session_id="it's “19”, {order} %s")
    asked = (["order-18", odd.session_id], odd.pk)
    found: list[Any] = with_ids(*asked)
    anew: list[Any] = list(with_ids.build(*asked))
    assert [(each.session_id, each.runs_made) for each in found] == [(each.session_id, each.runs_made) for each in anew]
    assert [each.pk for each in found] == [sessions[1].pk, odd.pk]


def test_the_first_row_and_the_number_of_rows(sessions: list[Session], django_assert_num_queries: Queries) -> None:
    with django_assert_num_queries(4):
        assert (first_two.count(1), first_two.count(99)) == (2, 0)
        assert first_two.first(99) is None
        first = first_two.first(1)
    assert first == Run.objects.order_by("number")[0]


def test_the_statement_is_made_once(sessions: list[Session]) -> None:
    asked = []

    @Prepared
    def counted(pk: int) -> QuerySet[Session]:
        asked.append(pk)
        return Session.objects.filter(pk=pk)

    assert [counted(each.pk) for each in sessions] == [[each] for each in sessions]
    assert len(asked) == 1


def test_a_database_can_be_named(sessions: list[Session]) -> None:
    (found,) = named("order-17", using="default")
    assert (found, found._state.db) == (sessions[0], "default")
    for ask in (named, named.first, named.count):
        with pytest.raises(ConnectionDoesNotExist):
            ask("order-17", using="nowhere")


def test_nothing_is_not_a_value(sessions: list[Session]) -> None:
    with pytest.raises(TypeError, match="no None"):
        Prepared(lambda title: Session.objects.filter(title=title))(None)


def test_every_thread_asks_over_its_own_connection(sessions: list[Session]) -> None:
    assert named("order-17") == [sessions[0]]
    here = connection.connection

    def ask() -> bool:
        try:
            return named("nobody") == [] and connection.connection is not here
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as another:
        assert another.submit(ask).result()


def test_two_threads_that_make_a_statement_at_once_do_not_spoil_it(
    sessions: list[Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One begins while the other is at it, and ends after that: Django counts joins in the query meanwhile."""
    read = Prepared(with_run.build)
    read(sessions[0].pk)
    assert read._rows is not None
    query: Any = read._rows.query
    query.asked = (sessions[0].pk,)
    query.compiled.clear()
    first_there, second_there, first_done = Event(), Event(), Event()
    from_clause = SQLCompiler.get_from_clause

    def together(compiler: SQLCompiler) -> Any:
        if not first_there.is_set():
            first_there.set()
            second_there.wait(0.5)  # in vain, where one waits for the other
        else:
            second_there.set()
            first_done.wait(5)
        return from_clause(compiler)

    def make() -> None:
        query.chain().get_compiler(using="default")

    monkeypatch.setattr(SQLCompiler, "get_from_clause", together)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(make)
        first_there.wait()
        second = threads.submit(make)
        first.result()
        first_done.set()
        second.result()
    monkeypatch.undo()
    assert [call.run.number for call in read(sessions[0].pk)] == [1] * (sessions[0].pk % 3 + 1)
