"""Background indexing in every web process; without one, use `manage.py index_search`."""

import asyncio

from channels.db import database_sync_to_async

from harness_site.core.background_task import BackgroundTask
from harness_site.search import indexer, recount_session_sums_by_day

#: Pause while the index is up to date, and so its maximum delay.
PAUSE_SECONDS = 1.0
#: Pause between batches, to leave processor time for requests.
BREATH_SECONDS = 0.02
#: Texts from which a batch is followed by the next one at once; fewer gather first, while agents write.
FULL_BATCH_SIZE = 50
GATHER_SECONDS = 0.5
#: Interval of recounting changed days.
DAYS_SECONDS = 10.0


class IndexerTask(BackgroundTask):
    """Indexer for the lifetime of the server. Database outages delay the index but do not stop the indexer."""

    name = "indexer"

    async def _run_until_cancelled(self) -> None:
        clock = asyncio.get_running_loop().time
        next_days, days = 0.0, None
        while True:
            count = 0
            try:
                count = await database_sync_to_async(indexer.index_next_batch_of_each_kind)()
                if clock() >= next_days:
                    next_days = clock() + DAYS_SECONDS
                    days = await database_sync_to_async(
                        recount_session_sums_by_day.recount_changed_days_and_record_models
                    )(days)
                self.record_successful_round()
            except Exception as error:
                self.record_failure(error)
            await asyncio.sleep(
                BREATH_SECONDS if count >= FULL_BATCH_SIZE else GATHER_SECONDS if count else PAUSE_SECONDS
            )
