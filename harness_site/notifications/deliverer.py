"""The round that each web process makes to tell people. Any number may; a site without web processes has
`manage.py deliver`."""

import asyncio
import logging
from typing import Final

from channels.db import database_sync_to_async

from harness_site.live.background import Background
from harness_site.notifications.collecting import collect
from harness_site.notifications.delivering import deliver
from harness_site.notifications.forgetting import forget

logger = logging.getLogger(__name__)

#: Between two rounds.
ROUND_SECONDS: Final = 2.0
#: Between two looks for what is old.
FORGET_SECONDS: Final = 3600.0


class Deliverer(Background):
    """Starts and stops with the server. A database or a receiver that is away delays messages, it loses none."""

    name = "deliverer"

    async def _run(self) -> None:
        clock = asyncio.get_running_loop().time
        next_forgetting = 0.0
        while True:
            try:
                await database_sync_to_async(collect)()
                await database_sync_to_async(deliver)()
                if clock() >= next_forgetting:
                    next_forgetting = clock() + FORGET_SECONDS
                    await database_sync_to_async(forget)()
            except Exception:
                logger.exception("The messages could not be delivered; it is tried again.")
            await asyncio.sleep(ROUND_SECONDS)
