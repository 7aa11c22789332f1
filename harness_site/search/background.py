"""Every web process brings the index up to the store; a site without one has `manage.py index_search`."""

import asyncio
import logging

from channels.db import database_sync_to_async

from harness_site.live.background import Background
from harness_site.search import indexing, session_days

logger = logging.getLogger(__name__)

#: How far behind the index may be when nothing else is.
PAUSE_SECONDS = 1.0
#: Between two steps while there is more to do: others want the processor too.
BREATH_SECONDS = 0.02
#: Between two counts of the days in which something has changed.
DAYS_SECONDS = 10.0


class Indexer(Background):
    """Starts and stops with the server. A database that is away for a while delays the index, it does not end it."""

    name = "indexer"

    async def _run(self) -> None:
        clock = asyncio.get_running_loop().time
        next_days, days = 0.0, None
        while True:
            done = 0
            try:
                done = await database_sync_to_async(indexing.step)()
                if clock() >= next_days:
                    next_days = clock() + DAYS_SECONDS
                    days = await database_sync_to_async(session_days.bring_up)(days)
            except Exception:
                logger.exception("The search index could not be brought up to date; it tries again.")
            await asyncio.sleep(BREATH_SECONDS if done else PAUSE_SECONDS)
