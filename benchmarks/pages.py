"""How long the server takes for each page of a large installation: `python -m benchmarks.pages`.

Fills a throw-away PostgreSQL server with `benchmarks.load` and makes the search index, then asks for each page again
and again in one process, without a network. Prints a table and writes it to docs/benchmarks-pages.md. With `--database`
it asks for the pages of a database that is filled already, and leaves in it no more than the reader it signs in as.
"""

from __future__ import annotations

import os
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from tests.support.cluster import cluster

if TYPE_CHECKING:
    from django.test import Client

REPORT: Final = Path(__file__).parents[1] / "docs" / "benchmarks-pages.md"
#: Milliseconds of server time that 95 of 100 answers may take.
PAGE: Final = 50
SEARCH: Final = 100


@dataclass(frozen=True)
class Measured:
    name: str
    target: int
    queries: int
    median: float
    p95: float
    cpu: float
    size: int

    @property
    def reached(self) -> bool:
        return self.p95 <= self.target


@dataclass(frozen=True)
class Asked:
    """A page by name; `addresses` are asked for in turn, so that no cache of one row makes it look quick."""

    name: str
    addresses: list[str]
    target: int = PAGE


def main() -> None:
    options = _options()
    with nullcontext(options.database) if options.database else cluster() as url:
        _begin(url)
        if not options.database:
            _fill(options)
        counted = _counted()
        _settle()
        found = [_measured(asked, options.rounds) for asked in _pages()]
    text = _table(found, options, counted)
    sys.stdout.write(text)
    if not options.no_report:
        REPORT.write_text(text)


def _options() -> Namespace:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=20_000)
    parser.add_argument("--messages", type=int, default=600_000)
    parser.add_argument("--calls", type=int, default=60_000)
    parser.add_argument("--texts", type=int, default=1_000_000, help="texts that go into the search index at most")
    parser.add_argument("--rounds", type=int, default=40, help="answers of each page that are timed")
    parser.add_argument("--database", help="address of a PostgreSQL database that holds generated sessions already")
    parser.add_argument("--no-report", action="store_true", help="print the table only")
    return parser.parse_args()


def _begin(url: str) -> None:
    import django

    os.environ["HARNESS_DATABASE_URL"] = url
    os.environ["DJANGO_SETTINGS_MODULE"] = "harness_site.settings"
    django.setup()


def _fill(options: Namespace) -> None:
    from django.core.management import call_command
    from django.db import connection

    from benchmarks.load.command import Command as Load

    call_command("migrate", verbosity=0)
    sizes = [f"--{name}={getattr(options, name)}" for name in ("sessions", "messages", "calls")]
    call_command(Load(), *sizes)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
    _index(options.texts)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")


def _settle() -> None:
    """Load what the first page of a web process loads."""
    _client().get("/sessions/")


def _counted() -> tuple[int, int, int, int]:
    """Sessions, messages, calls, and texts in the search index."""
    from checkpoints.models import Message, Session, ToolCall
    from harness_site.search.models import Passage

    sessions, messages, calls, passages = (
        model._default_manager.count() for model in (Session, Message, ToolCall, Passage)
    )
    return sessions, messages, calls, passages


def _index(most: int) -> None:
    from harness_site.search import indexing, session_days

    indexed = 0
    while indexed < most and (done := indexing.step()):
        indexed += done
    session_days.bring_up(None)


def _client() -> Client:
    from django.contrib.auth.models import User
    from django.test import Client

    from checkpoints.enums import Role
    from checkpoints.models import Workspace
    from harness_site.accounts.models import Membership

    user, made = User.objects.get_or_create(username="reader")
    if made:
        Membership.objects.create(user=user, workspace=Workspace.objects.get(slug="default"), role=Role.APPROVER)
    client = Client(SERVER_NAME="127.0.0.1")
    client.force_login(user)
    return client


def _pages() -> Iterator[Asked]:
    from django.db.models import Count

    from checkpoints.models import Session, ToolCall

    longest = list(Session.objects.order_by("-message_count").values_list("pk", "latest_version")[:20_000])
    huge, sessions = longest[:6], longest[10::500]
    waiting = list(ToolCall.objects.filter(status="interrupted").values_list("pk", flat=True)[:20])
    yield from _lists()
    yield from _searches()
    yield from _calls()
    yield Asked("Overview", ["/overview/"])
    yield Asked("Review queue", ["/review/"])
    if waiting:
        yield Asked("Decision card", [f"/review/calls/{pk}/" for pk in waiting])
    for name, some in (("Session", sessions), ("Session of 10,000 messages", huge)):
        yield Asked(name, [f"/sessions/{pk}/" for pk, _ in some])
        yield Asked(f"{name}: in the middle", [f"/sessions/{pk}/?at={last // 2}" for pk, last in some])
        yield Asked(f"{name}: versions", [f"/sessions/{pk}/versions/" for pk, _ in some])
        yield Asked(f"{name}: tool calls", [f"/sessions/{pk}/calls/" for pk, _ in some])
        yield Asked(f"{name}: compare", [f"/sessions/{pk}/compare/" for pk, _ in some])
        yield Asked(f"{name}: timeline", [f"/sessions/{pk}/timeline/" for pk, _ in some])
    busiest = ToolCall.objects.filter(session__in=[pk for pk, _ in huge]).values("session").annotate(calls=Count("pk"))
    for pk, calls in busiest.order_by("-calls").values_list("session", "calls")[:1]:
        yield Asked(f"Timeline of {calls:,} calls", [f"/sessions/{pk}/timeline/"])
        yield Asked(f"Tool calls of a session with {calls:,}", [f"/sessions/{pk}/calls/"])
    yield Asked("Audit", ["/audit/"])


def _lists() -> Iterator[Asked]:
    yield Asked("Sessions", ["/sessions/"])
    yield Asked("Sessions: deep in the list", [_deep()])
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
        yield Asked(f"Sessions: {name}", [f"/sessions/?{query}"])


def _calls() -> Iterator[Asked]:
    yield Asked("Tool calls", ["/calls/"])
    for name, query in (
        ("of one tool", "tool=refund_card"),
        ("interrupted", "status=interrupted"),
        ("of one agent", "agent=desk-3"),
    ):
        yield Asked(f"Tool calls: {name}", [f"/calls/?{query}"])


def _deep() -> str:
    from checkpoints.models import Session
    from checkpoints.queries import keyset

    rows = Session.objects.annotate(stored=keyset.stored_text("updated_at")).order_by("-updated_at", "-pk")
    stored, pk = rows[rows.count() * 9 // 10 : rows.count() * 9 // 10 + 1].values_list("stored", "pk")[0]
    return "/sessions/?" + urlencode({"after": str(keyset.Cursor(stored, pk))})


def _searches() -> Iterator[Asked]:
    from checkpoints.models import Session

    ids = list(Session.objects.order_by("pk").values_list("session_id", flat=True)[10:1000])[::50]
    numbers = [name.removeprefix("load-") for name in ids]
    yield Asked("Search: what one session says", [f"/sessions/?q=order-{number}" for number in numbers], SEARCH)
    yield Asked("Search: a session's id", [f"/sessions/?q={name}" for name in ids], SEARCH)
    yield Asked("Search: a receipt of one call", [f"/sessions/?q=re_{n:x}_" for n in range(100, 2000, 100)], SEARCH)
    for word in ("refund", "invoice", "退款", "возврат", "überweisung"):
        yield Asked(f"Search: “{word}”", [f"/sessions/?q={word}"], SEARCH)
    yield Asked("Search: a common word in failed sessions", ["/sessions/?q=refund&status=failed"], SEARCH)
    yield Asked("Search: two words that seldom meet", ["/sessions/?q=überweisung+warehouse"], SEARCH)
    yield Asked("Search: a word nobody says", ["/sessions/?q=qqqzzzqqq"], SEARCH)


def _measured(asked: Asked, rounds: int) -> Measured:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    client = _client()
    answers: list[float] = []
    worked: list[float] = []
    size = 0
    with CaptureQueriesContext(connection) as captured:
        client.get(asked.addresses[0])
        before = len(captured)
        client.get(asked.addresses[0])
        queries = len(captured) - before
    for number in range(rounds):
        address = asked.addresses[number % len(asked.addresses)]
        start, work = time.perf_counter(), time.process_time()
        response = client.get(address)
        answers.append((time.perf_counter() - start) * 1000)
        worked.append((time.process_time() - work) * 1000)
        if response.status_code != 200:
            raise RuntimeError(f"{address} was answered with {response.status_code}.")
        size = max(size, len(response.content))
    cuts = quantiles(answers, n=20)
    found = Measured(asked.name, asked.target, queries, cuts[9], cuts[18], median(worked), size)
    sys.stderr.write(f"{found.name}: {found.queries} queries, {found.median:.1f}, {found.p95:.1f} ms\n")
    return found


def _table(found: list[Measured], options: Namespace, counted: tuple[int, int, int, int]) -> str:
    reached = sum(each.reached for each in found)
    sessions, messages, calls, passages = counted
    lines = [
        "# Pages at size",
        "",
        f"{sessions:,} sessions, {messages:,} messages, {calls:,} calls on PostgreSQL, {passages:,} texts of them in",
        f"the search index. Server time in milliseconds over {options.rounds} answers of each page, in one process,",
        "without the network; “Python” is what this process computed for the median answer, the rest is the database.",
        "Measured by `python -m benchmarks.pages`. The target for 95 of 100 answers is",
        f"{PAGE} ms, for searches {SEARCH} ms: reached by {reached} of {len(found)} pages.",
        "",
        "| page | queries | median | p95 | Python | KB | target |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    for each in found:
        verdict = f"{each.target} ms: {'reached' if each.reached else '**missed**'}"
        times = f"{each.median:.1f} | {each.p95:.1f} | {each.cpu:.1f}"
        lines.append(f"| {each.name} | {each.queries} | {times} | {each.size / 1000:.0f} | {verdict} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
