import time
from argparse import ArgumentParser, ArgumentTypeError
from datetime import UTC, datetime, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from benchmarks.load.building import Builder, Built, duration
from benchmarks.load.copying import Keys, Writer, finish
from benchmarks.load.plan import Plan
from benchmarks.load.words import Words
from checkpoints import clock
from checkpoints.models import Session, Workspace

#: Messages that are written in one transaction.
BATCH = 50_000
#: Over so many days the sessions began.
DAYS = 365


def _moment(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise ArgumentTypeError(f"{text!r} is no time such as 2026-01-31T12:00:00Z") from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)


class Command(BaseCommand):
    help = "Fills a PostgreSQL database with generated sessions, to try and to measure a large installation."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--sessions", type=int, default=1_000_000)
        parser.add_argument("--messages", type=int, default=30_000_000)
        parser.add_argument("--calls", type=int, default=3_000_000)
        parser.add_argument("--seed", type=int, default=1, help="the same seed makes the same sessions (default: 1)")
        parser.add_argument("--workspace", default="default", help="slug of the workspace they belong to")
        parser.add_argument(
            "--until", type=_moment, default=None, help="when the last one ends, in ISO form (default: now)"
        )
        parser.add_argument("--add", action="store_true", help="also where there are sessions already")

    def handle(self, *args: Any, **options: Any) -> None:
        plan = Plan(options["sessions"], options["messages"], options["calls"], options["seed"])
        self._check(plan, options)
        workspace = Workspace.objects.get_or_create(slug=options["workspace"], defaults={"name": options["workspace"]})[
            0
        ]
        builder = Builder(workspace, Words(plan.seed), plan.seed, Keys())
        since, now, written = time.monotonic(), options["until"] or clock.now(), 0
        batch: list[Built] = []
        waiting = 0
        with Writer() as write:
            for number in range(plan.sessions):
                size = plan.size(number)
                began = now - timedelta(days=DAYS) * (plan.sessions - number) / plan.sessions
                batch.append(builder.build(number, size, min(began, now - duration(size))))
                waiting += len(batch[-1].messages)
                if waiting >= BATCH or number == plan.sessions - 1:
                    write(batch)
                    written += waiting
                    batch, waiting = [], 0
                    pace = written / max(time.monotonic() - since, 0.001)
                    self.stderr.write(
                        f"{number + 1:,} of {plan.sessions:,} sessions, {written:,} messages, {pace:,.0f} a second"
                    )
        finish()
        self.stdout.write(
            f"{plan.sessions:,} sessions with {written:,} messages are there. Next: manage.py index_search"
        )

    def _check(self, plan: Plan, options: dict[str, Any]) -> None:
        if connection.vendor != "postgresql":
            raise CommandError("Only PostgreSQL takes so much so quickly: set HARNESS_DATABASE_URL to one.")
        if plan.sessions < 1 or plan.messages < 2 * plan.sessions or plan.calls < 0:
            raise CommandError("There has to be a session at least, with two messages in each on average.")
        if Session.objects.filter(session_id__startswith=f"load-{plan.seed}-").exists():
            raise CommandError(f"Sessions of seed {plan.seed} are there already. Choose another one.")
        if Session.objects.exists() and not options["add"]:
            raise CommandError("There are sessions in this database. Say --add if these are to stand beside them.")
