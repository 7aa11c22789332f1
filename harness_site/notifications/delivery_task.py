"""Background task of each web process that sends notifications.

Any number may run; a site without web processes uses `manage.py deliver`.
"""

import asyncio
from typing import Final

from channels.db import database_sync_to_async

from harness_site.core.background_task import BackgroundTask
from harness_site.notifications.create_due_notices import create_due_notices
from harness_site.notifications.delivery_retention import delete_old_notices_and_deliveries
from harness_site.notifications.send_due_deliveries import send_due_deliveries

#: Seconds between two rounds.
ROUND_SECONDS: Final = 2.0
#: Seconds between two deletions of old notices.
FORGET_SECONDS: Final = 3600.0


class DeliveryTask(BackgroundTask):
    """Task that runs as long as the server. An unreachable database or receiver delays messages but loses none."""

    name = "deliverer"

    async def _run_until_cancelled(self) -> None:
        clock = asyncio.get_running_loop().time
        next_forgetting = 0.0
        while True:
            try:
                await database_sync_to_async(create_due_notices)()
                await database_sync_to_async(send_due_deliveries)()
                if clock() >= next_forgetting:
                    next_forgetting = clock() + FORGET_SECONDS
                    await database_sync_to_async(delete_old_notices_and_deliveries)()
                self.record_successful_round()
            except Exception as error:
                self.record_failure(error)
            await asyncio.sleep(ROUND_SECONDS)
