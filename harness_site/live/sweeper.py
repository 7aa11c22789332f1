"""The rounds that each web process makes: runs that are gone, other agents that have not answered in time.

Any number of processes may make them, so nobody has to be chosen; a site without web processes has `manage.py sweep`.
"""

import asyncio
import logging

from channels.db import database_sync_to_async

from checkpoints.peers.sweeping import sweep
from harness_site.live.background import Background

logger = logging.getLogger(__name__)

#: Between two rounds: so much longer than it was given another agent may take before it is noticed.
SWEEP_SECONDS = 5.0


class Sweeper(Background):
    """Starts and stops with the server. A database that is away for a while delays a round, it does not end them."""

    name = "sweeper"

    async def _run(self) -> None:
        while True:
            try:
                await database_sync_to_async(sweep)("default")
            except Exception:
                logger.exception("The sweeper could not make its round; it tries again.")
            await asyncio.sleep(SWEEP_SECONDS)
