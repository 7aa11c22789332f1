"""ASGI lifespan of a web process: starts its background tasks, and stops them at the shutdown."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from channels.db import database_sync_to_async

from harness_site.core import deferred_writes
from harness_site.core.background_task import BackgroundTask
from harness_site.installation.database_readiness import probe
from harness_site.live.change_feed_and_sealing_task import ChangeFeedTask
from harness_site.live.lost_run_and_deadline_sweep_task import SweepTask
from harness_site.notifications.delivery_task import DeliveryTask
from harness_site.search.index_task import IndexerTask

logger = logging.getLogger(__name__)

#: Interval of looking whether the tables exist, while they do not.
TABLES_SECONDS = 1.0

Send = Callable[[dict[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]


async def handle_lifespan(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """Handle the ASGI lifespan protocol: feed, sweeper, indexer and deliverer run until the shutdown.

    They start when the database has its tables. Deferred writes that still wait are done at shutdown.
    """
    tasks = (ChangeFeedTask(), SweepTask(), IndexerTask(), DeliveryTask())
    starting: asyncio.Task[None] | None = None
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            starting = asyncio.create_task(_wait_for_tables_and_start_tasks(tasks))
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            if starting is not None:
                starting.cancel()
                try:
                    await starting
                except asyncio.CancelledError:
                    pass
                except Exception:  # the tasks that have started are stopped all the same
                    logger.exception("The tasks in the background did not start.")
            for task in tasks:
                await task.stop()
            await database_sync_to_async(deferred_writes.flush_all)()
            await send({"type": "lifespan.shutdown.complete"})
            return


async def _wait_for_tables_and_start_tasks(tasks: Sequence[BackgroundTask]) -> None:
    while True:
        if await database_sync_to_async(probe.find_problem)() is None:
            break
        await asyncio.sleep(TABLES_SECONDS)
    for task in tasks:
        await task.start()
