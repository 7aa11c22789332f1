"""Every web process brings the index up to the store; a site without one has `manage.py index_search`."""

import asyncio
import logging

from channels.db import database_sync_to_async

from harness_site.live.background import Background
from harness_site.search import indexing

logger = logging.getLogger(__name__)

#: How far behind the index may be when nothing else is.
PAUSE_SECONDS = 1.0
#: Between two steps while there is more to do: others want the processor too.
BREATH_SECONDS = 0.02


class Indexer(Background):
    """Starts and stops with the server. A database that is away for a while delays the index, it does not end it."""

    name = "indexer"

    async def _run(self) -> None:
        while True:
            done = 0
            try:
                done = await database_sync_to_async(indexing.step)()
            except Exception:
                logger.exception("The search index could not be brought up to date; it tries again.")
            await asyncio.sleep(BREATH_SECONDS if done else PAUSE_SECONDS)
