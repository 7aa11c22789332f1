"""Benchmark of the server time of each page on a large database: `python -m benchmarks.pages`.

Fills a throw-away PostgreSQL server with `benchmarks.load` and builds the search index, then requests all pages, round
after round, from the WSGI application in one process, without a network. Each round has an order of its own, so that a
slow moment of the machine falls on all pages and not on the samples of one. Prints a table and writes it to
docs/benchmarks-pages.md. With `--database` it requests the pages of a filled database, and adds only the user that it
signs in as.
"""

from __future__ import annotations

import os
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from random import Random
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode, urljoin

from tests.support.cluster import cluster

if TYPE_CHECKING:
    from django.test import RequestFactory

REPORT: Final = Path(__file__).parents[1] / "docs" / "benchmarks-pages.md"
#: Target for the 95th percentile of server time, in milliseconds.
PAGE: Final = 50
SEARCH: Final = 100


@dataclass(frozen=True)
class PageTiming:
    name: str
    target: int
    queries: int
    median: float
    p95: float
    cpu: float
    size: int

    @property
    def is_target_reached(self) -> bool:
        return self.p95 <= self.target


@dataclass(frozen=True)
class PageRequest:
    """Requests of one page; `addresses` are requested in turn, so that caches do not distort the time."""

    name: str
    addresses: list[str]
    target: int = PAGE


@dataclass(frozen=True)
class TimedAnswer:
    """Answer of the site, with the milliseconds until its last byte was there."""

    status: int
    location: str
    size: int
    elapsed: float
    cpu: float


def main() -> None:
    options = _parse_options()
    with nullcontext(options.database) if options.database else cluster() as url:
        _set_up_django(url)
        if not options.database:
            _generate_and_index_sessions(options)
        row_counts = _count_sessions_messages_calls_and_passages()
        _warm_up_site_by_one_request()
        timings = _measure_pages(list(_iterate_page_requests()), options.rounds)
    text = _format_timings_page(timings, options, row_counts)
    sys.stdout.write(text)
    if not options.no_report:
        REPORT.write_text(text)


def _parse_options() -> Namespace:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=20_000)
    parser.add_argument("--messages", type=int, default=600_000)
    parser.add_argument("--calls", type=int, default=60_000)
    parser.add_argument("--texts", type=int, default=1_000_000, help="texts that go into the search index at most")
    parser.add_argument("--rounds", type=int, default=40, help="answers of each page that are timed")
    parser.add_argument("--database", help="address of a PostgreSQL database that holds generated sessions already")
    parser.add_argument("--no-report", action="store_true", help="print the table only")
    return parser.parse_args()


def _set_up_django(url: str) -> None:
    import django

    os.environ["HARNESS_DATABASE_URL"] = url
    os.environ["DJANGO_SETTINGS_MODULE"] = "harness_site.settings"
    django.setup()


def _generate_and_index_sessions(options: Namespace) -> None:
    from django.core.management import call_command
    from django.db import connection

    from benchmarks.load.generate_sessions_command import Command as Load

    call_command("migrate", verbosity=0)
    sizes = [f"--{name}={getattr(options, name)}" for name in ("sessions", "messages", "calls")]
    call_command(Load(), *sizes)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
    _index_texts_and_recount_sums(options.texts)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")


def _warm_up_site_by_one_request() -> None:
    """Load everything that a web process loads until its first response."""
    import_module("harness_site.wsgi")
    _request_and_time_page(_create_signed_in_request_factory(), "/sessions/")


def _count_sessions_messages_calls_and_passages() -> tuple[int, int, int, int]:
    """Count sessions, messages, calls, and texts in the search index."""
    from checkpoints.models import Message, Session, ToolCall
    from harness_site.search.models import Passage

    sessions, messages, calls, passages = (
        model._default_manager.count() for model in (Session, Message, ToolCall, Passage)
    )
    return sessions, messages, calls, passages


def _index_texts_and_recount_sums(max_texts: int) -> None:
    from harness_site.search import indexer, recount_session_sums_by_day

    indexed = 0
    while indexed < max_texts and (batch_size := indexer.index_next_batch_of_each_kind()):
        indexed += batch_size
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)


def _create_signed_in_request_factory() -> RequestFactory:
    """Create a factory of requests that have the cookies of a signed-in reader."""
    from django.contrib.auth.models import User
    from django.test import Client, RequestFactory

    from checkpoints.enums import Role
    from checkpoints.models import Workspace
    from harness_site.accounts.models import Membership

    user, is_new = User.objects.get_or_create(username="reader")
    if is_new:
        Membership.objects.create(user=user, workspace=Workspace.objects.get(slug="default"), role=Role.APPROVER)
    client = Client()
    client.force_login(user)
    factory = RequestFactory(SERVER_NAME="127.0.0.1")
    factory.cookies = client.cookies
    return factory


def _request_and_time_page(factory: RequestFactory, address: str) -> TimedAnswer:
    """Request a page as a WSGI server does, which closes the response when it has sent all of it."""
    application: Any = import_module("harness_site.wsgi").application
    environ = factory.get(address).environ
    head: list[tuple[str, dict[str, str]]] = []

    def start_response(status: str, headers: list[tuple[str, str]], exc_info: object = None) -> None:
        head.append((status, dict(headers)))

    start, cpu_start = time.perf_counter(), time.process_time()
    pieces = application(environ, start_response)
    size = sum(map(len, pieces))
    elapsed, cpu = time.perf_counter() - start, time.process_time() - cpu_start
    pieces.close()
    [(status, headers)] = head
    return TimedAnswer(int(status[:3]), headers.get("Location", ""), size, elapsed * 1000, cpu * 1000)


def _time_page_with_redirects(factory: RequestFactory, address: str) -> TimedAnswer:
    """Request a page, and add the times of the redirects that lead to it."""
    answer = _request_and_time_page(factory, address)
    if answer.status != 302:
        return answer
    target = _time_page_with_redirects(factory, urljoin(address, answer.location))
    return replace(target, elapsed=answer.elapsed + target.elapsed, cpu=answer.cpu + target.cpu)


def _iterate_page_requests() -> Iterator[PageRequest]:
    from django.db.models import Count

    from checkpoints.models import Session, ToolCall

    longest = list(Session.objects.order_by("-message_count").values_list("pk", "latest_version")[:20_000])
    huge, sessions = longest[:6], longest[10::500]
    interrupted_calls = list(ToolCall.objects.filter(status="interrupted").values_list("pk", flat=True)[:20])
    yield from _iterate_session_list_requests()
    yield from _iterate_search_requests()
    yield from _iterate_call_list_requests()
    yield PageRequest("Overview", ["/overview/"])
    yield PageRequest("Review queue", ["/review/"])
    if interrupted_calls:
        yield PageRequest("Decision card", [f"/review/calls/{pk}/" for pk in interrupted_calls])
    for name, session_keys in (("Session", sessions), ("Session of 10,000 messages", huge)):
        yield PageRequest(name, [f"/sessions/{pk}/" for pk, _ in session_keys])
        yield PageRequest(
            f"{name}: in the middle",
            [f"/sessions/{pk}/?at={latest_version // 2}" for pk, latest_version in session_keys],
        )
        yield PageRequest(f"{name}: versions", [f"/sessions/{pk}/versions/" for pk, _ in session_keys])
        yield PageRequest(f"{name}: tool calls", [f"/sessions/{pk}/calls/" for pk, _ in session_keys])
        yield PageRequest(f"{name}: compare", [f"/sessions/{pk}/compare/" for pk, _ in session_keys])
        yield PageRequest(f"{name}: timeline", [f"/sessions/{pk}/timeline/" for pk, _ in session_keys])
    busiest = ToolCall.objects.filter(session__in=[pk for pk, _ in huge]).values("session").annotate(calls=Count("pk"))
    for pk, calls in busiest.order_by("-calls").values_list("session", "calls")[:1]:
        yield PageRequest(f"Timeline of {calls:,} calls", [f"/sessions/{pk}/timeline/"])
        yield PageRequest(f"Tool calls of a session with {calls:,}", [f"/sessions/{pk}/calls/"])
    yield PageRequest("Audit", ["/audit/"])


def _iterate_session_list_requests() -> Iterator[PageRequest]:
    yield PageRequest("Sessions", ["/sessions/"])
    yield PageRequest("Sessions: deep in the list", [_build_url_of_deep_session_list_page()])
    for name, query in (
        ("by start", "sort=started"),
        ("by cost", "sort=cost"),
        ("one agent", "agent=desk-3"),
        ("failed", "status=failed"),
        ("running", "status=running"),
        ("one label", "label=vip"),
        ("one tool", "tool=refund_card"),
        ("decided by one person", "by=alice"),
        ("with interruptions", "interrupted=1"),
        ("label, tool, agent and cost", "label=vip&tool=send_mail&agent=desk-3&least=0.01"),
    ):
        yield PageRequest(f"Sessions: {name}", [f"/sessions/?{query}"])


def _iterate_call_list_requests() -> Iterator[PageRequest]:
    yield PageRequest("Tool calls", ["/calls/"])
    for name, query in (
        ("of one tool", "tool=refund_card"),
        ("interrupted", "status=interrupted"),
        ("of one agent", "agent=desk-3"),
    ):
        yield PageRequest(f"Tool calls: {name}", [f"/calls/?{query}"])


def _build_url_of_deep_session_list_page() -> str:
    from checkpoints.db import keyset_pagination
    from checkpoints.models import Session

    rows = Session.objects.annotate(stored=keyset_pagination.cast_field_to_text("updated_at")).order_by(
        "-updated_at", "-pk"
    )
    stored, pk = rows[rows.count() * 9 // 10 : rows.count() * 9 // 10 + 1].values_list("stored", "pk")[0]
    return "/sessions/?" + urlencode({"after": str(keyset_pagination.Cursor(stored, pk))})


def _iterate_search_requests() -> Iterator[PageRequest]:
    from checkpoints.models import Session

    # The index begins with the newest texts, and may not have the oldest.
    ids = list(Session.objects.order_by("-pk").values_list("session_id", flat=True)[10:1000])[::50]
    numbers = [name.removeprefix("load-") for name in ids]
    yield PageRequest("Search: what one session says", [f"/sessions/?q=order-{number}" for number in numbers], SEARCH)
    yield PageRequest("Search: a session's id", [f"/sessions/?q={name}" for name in ids], SEARCH)
    yield PageRequest(
        "Search: a receipt of one call", [f"/sessions/?q=re_{n:x}_" for n in range(100, 2000, 100)], SEARCH
    )
    for word in ("refund", "invoice", "退款", "возврат", "überweisung"):
        yield PageRequest(f"Search: “{word}”", [f"/sessions/?q={word}"], SEARCH)
    yield PageRequest("Search: a common word in failed sessions", ["/sessions/?q=refund&status=failed"], SEARCH)
    yield PageRequest("Search: two words that seldom meet", ["/sessions/?q=überweisung+warehouse"], SEARCH)
    yield PageRequest("Search: a word nobody says", ["/sessions/?q=qqqzzzqqq"], SEARCH)


def _measure_pages(pages: list[PageRequest], rounds: int) -> list[PageTiming]:
    factory = _create_signed_in_request_factory()
    query_counts = [_count_queries_of_second_request(factory, page.addresses[0]) for page in pages]
    answers: list[list[TimedAnswer]] = [[] for _ in pages]
    order, orders = list(range(len(pages))), Random(1)  # noqa: S311 - an order, no secret
    for number in range(rounds):
        orders.shuffle(order)
        for index in order:
            addresses = pages[index].addresses
            address = addresses[number % len(addresses)]
            # A search that finds nothing leads to the nearest known words.
            answer = _time_page_with_redirects(factory, address)
            if answer.status != 200:
                raise RuntimeError(f"{address} was answered with {answer.status}.")
            answers[index].append(answer)
        sys.stderr.write(f"round {number + 1} of {rounds}\n")
    return list(map(_summarize_answers_of_page, pages, query_counts, answers))


def _count_queries_of_second_request(factory: RequestFactory, address: str) -> int:
    """Count the queries of the second request of a page."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as queries_log:
        _request_and_time_page(factory, address)
        query_count = len(queries_log)
        _request_and_time_page(factory, address)
        return len(queries_log) - query_count


def _summarize_answers_of_page(page: PageRequest, query_count: int, answers: list[TimedAnswer]) -> PageTiming:
    cuts = quantiles([answer.elapsed for answer in answers], n=20)
    cpu, size = median(answer.cpu for answer in answers), max(answer.size for answer in answers)
    return PageTiming(page.name, page.target, query_count, cuts[9], cuts[18], cpu, size)


def _format_timings_page(timings: list[PageTiming], options: Namespace, row_counts: tuple[int, int, int, int]) -> str:
    reached_count = sum(timing.is_target_reached for timing in timings)
    sessions, messages, calls, passages = row_counts
    lines = [
        "# Pages at size",
        "",
        f"{sessions:,} sessions, {messages:,} messages, {calls:,} calls on PostgreSQL, {passages:,} texts of them in",
        f"the search index. Server time in milliseconds over {options.rounds} rounds of all pages, in one process,",
        "without the network; “Python” is what this process computed for the median answer, the rest is the database.",
        "Measured by `python -m benchmarks.pages`. The target for 95 of 100 answers is",
        f"{PAGE} ms, for searches {SEARCH} ms: reached by {reached_count} of {len(timings)} pages.",
        "",
        "| page | queries | median | p95 | Python | KB | target |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    for timing in timings:
        verdict = f"{timing.target} ms: {'reached' if timing.is_target_reached else '**missed**'}"
        times = f"{timing.median:.1f} | {timing.p95:.1f} | {timing.cpu:.1f}"
        lines.append(f"| {timing.name} | {timing.queries} | {times} | {timing.size / 1000:.0f} | {verdict} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
