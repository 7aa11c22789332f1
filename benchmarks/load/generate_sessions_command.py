import time
from argparse import ArgumentParser, ArgumentTypeError
from datetime import UTC, datetime, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from benchmarks.load.generated_row_writer import BackgroundSessionWriter, KeyAllocator, reset_sequences_and_analyze
from benchmarks.load.generated_session_rows import GeneratedSession, SessionBuilder, compute_session_duration
from benchmarks.load.generated_session_sizes import SessionSizePlan
from benchmarks.load.random_sentences import SentenceGenerator
from checkpoints.db import clock
from checkpoints.models import Session, Workspace

#: Number of messages written in one transaction.
BATCH = 50_000
#: Number of days over which the sessions start.
DAYS = 365


def _parse_time(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ArgumentTypeError(f"{text!r} is no time such as 2026-01-31T12:00:00Z") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


class Command(BaseCommand):
    help = "Fills a PostgreSQL database with generated sessions, to try and to measure a large installation."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--sessions", type=int, default=1_000_000)
        parser.add_argument("--messages", type=int, default=30_000_000)
        parser.add_argument("--calls", type=int, default=3_000_000)
        parser.add_argument("--seed", type=int, default=1, help="the same seed makes the same sessions (default: 1)")
        parser.add_argument("--workspace", default="default", help="slug of the workspace they belong to")
        parser.add_argument(
            "--until", type=_parse_time, default=None, help="when the last one ends, in ISO form (default: now)"
        )
        parser.add_argument("--add", action="store_true", help="also where there are sessions already")

    def handle(self, *args: Any, **options: Any) -> None:
        plan = SessionSizePlan(options["sessions"], options["messages"], options["calls"], options["seed"])
        self._require_valid_plan_and_suitable_database(plan, options)
        workspace = Workspace.objects.get_or_create(slug=options["workspace"], defaults={"name": options["workspace"]})[
            0
        ]
        builder = SessionBuilder(workspace, SentenceGenerator(plan.seed), plan.seed, KeyAllocator())
        started_at, now, written = time.monotonic(), options["until"] or clock.now(), 0
        batch: list[GeneratedSession] = []
        batch_messages = 0
        with BackgroundSessionWriter() as write:
            for number in range(plan.sessions):
                size = plan.get_session_size(number)
                session_start = now - timedelta(days=DAYS) * (plan.sessions - number) / plan.sessions
                batch.append(
                    builder.build_session(number, size, min(session_start, now - compute_session_duration(size)))
                )
                batch_messages += len(batch[-1].messages)
                if batch_messages >= BATCH or number == plan.sessions - 1:
                    write(batch)
                    written += batch_messages
                    batch, batch_messages = [], 0
                    rate = written / max(time.monotonic() - started_at, 0.001)
                    self.stderr.write(
                        f"{number + 1:,} of {plan.sessions:,} sessions, {written:,} messages, {rate:,.0f} a second"
                    )
        reset_sequences_and_analyze()
        self.stdout.write(
            f"{plan.sessions:,} sessions with {written:,} messages are there. Next: manage.py index_search"
        )

    def _require_valid_plan_and_suitable_database(self, plan: SessionSizePlan, options: dict[str, Any]) -> None:
        if connection.vendor != "postgresql":
            raise CommandError("Only PostgreSQL takes so much so quickly: set HARNESS_DATABASE_URL to one.")
        if plan.sessions < 1 or plan.messages < 2 * plan.sessions or plan.calls < 0:
            raise CommandError("There has to be a session at least, with two messages in each on average.")
        if Session.objects.filter(session_id__startswith=f"load-{plan.seed}-").exists():
            raise CommandError(f"Sessions of seed {plan.seed} are there already. Choose another one.")
        if Session.objects.exists() and not options["add"]:
            raise CommandError("There are sessions in this database. Say --add if these are to stand beside them.")
