from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from harness_site.notifications.create_due_notices import create_due_notices
from harness_site.notifications.delivery_retention import delete_old_notices_and_deliveries
from harness_site.notifications.send_due_deliveries import LIMIT, send_due_deliveries


class Command(BaseCommand):
    help = (
        "Notice calls that wait for a person, and send what is due by e-mail and to webhooks. The site does the same "
        "by itself, every few seconds; from cron, this needs no web process."
    )
    #: Checks load the views of the site, which takes longer than the work of this command.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--limit", type=int, default=LIMIT, help="messages to send at most")

    def handle(self, *args: Any, **options: Any) -> None:
        noticed_count = create_due_notices()
        totals = send_due_deliveries(limit=options["limit"])
        delete_old_notices_and_deliveries()
        self.stdout.write(
            f"{noticed_count} calls noticed, {totals.sent} messages sent, {totals.failed} failed for now, "
            f"{totals.given_up} given up, {totals.not_needed} not needed any more."
        )
