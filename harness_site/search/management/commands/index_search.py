from argparse import ArgumentParser
from time import sleep
from typing import Any, Final

from django.core.management.base import BaseCommand

from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden
from harness_site.search import indexer, recount_session_sums_by_day
from harness_site.search.list_incompletely_indexed_texts import list_incompletely_indexed_texts

#: Seconds between two checks of another process that is indexing or was killed.
_PATIENCE: Final = 1.0


class Command(BaseCommand):
    help = "Brings the search index and the numbers of the overview up to the store, and ends when nothing is left."
    #: Checks load the views of the site, which takes longer than the work of this command.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--rebuild",
            action="store_true",
            help="begin again from nothing, under the present rules of masking; search finds less until it is done",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["rebuild"]:
            indexer.clear_index_with_call_and_decision_sums()
        total = 0
        while (count := indexer.index_next_batch_of_each_kind()) or indexer.is_any_process_indexing():
            if not count:
                sleep(_PATIENCE)
            total += count
            if count and (options["verbosity"] > 1 or total % 20_000 < count):
                self.stderr.write(f"{total:,} texts …")
        recount_session_sums_by_day.recount_changed_days_and_record_models(None)
        self.stdout.write(f"{total:,} {'text' if total == 1 else 'texts'} went into the index; it is complete.")
        self._print_unreadable_or_cut_texts()

    def _print_unreadable_or_cut_texts(self) -> None:
        problems = list_incompletely_indexed_texts()
        for text in problems.texts:
            self.stdout.write(mask_and_reveal_hidden(str(text)))
        if problems.omitted_count:
            self.stdout.write(f"… and {problems.omitted_count:,} more texts that cannot be found as a whole.")
