from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from harness_site.notifications.collecting import collect
from harness_site.notifications.delivering import LIMIT, deliver
from harness_site.notifications.forgetting import forget


class Command(BaseCommand):
    help = (
        "Notice calls that wait for a person, and send what is due by e-mail and to webhooks. The site does the same "
        "by itself, every few seconds; from cron, this needs no web process."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--limit", type=int, default=LIMIT, help="messages to send at most")

    def handle(self, *args: Any, **options: Any) -> None:
        collected = collect()
        done = deliver(limit=options["limit"])
        forget()
        self.stdout.write(
            f"{collected} calls noticed, {done.sent} messages sent, {done.failed} failed for now, "
            f"{done.given_up} given up, {done.not_needed} not needed any more."
        )
