from argparse import ArgumentParser
from time import sleep
from typing import Any, Final

from django.core.management.base import BaseCommand

from harness_site.rendering.text import visible
from harness_site.search import indexing, session_days
from harness_site.search.problems import problems

#: Seconds between two looks at what another process is doing, or was when it was killed.
_PATIENCE: Final = 1.0


class Command(BaseCommand):
    help = "Brings the search index and the numbers of the overview up to the store, and ends when nothing is left."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--rebuild",
            action="store_true",
            help="begin again from nothing, under the present rules of masking; search finds less until it is done",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["rebuild"]:
            indexing.forget()
        total = 0
        while (done := indexing.step()) or indexing.elsewhere():
            if not done:
                sleep(_PATIENCE)
            total += done
            if done and (options["verbosity"] > 1 or total % 20_000 < done):
                self.stderr.write(f"{total:,} texts …")
        session_days.bring_up(None)
        self.stdout.write(f"{total:,} {'text' if total == 1 else 'texts'} went into the index; it is complete.")
        self._tell_problems()

    def _tell_problems(self) -> None:
        found = problems()
        for text in found.texts:
            self.stdout.write(visible(str(text)))
        if found.more:
            self.stdout.write(f"… and {found.more:,} more texts that cannot be found as a whole.")
