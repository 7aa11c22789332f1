"""Background task of each web process that sweeps lost runs and overdue requests to other agents.

Any number may run, so no leader is elected; a site without web processes uses `manage.py sweep`.
"""

import asyncio

from channels.db import database_sync_to_async

from checkpoints.peers.sweep_lost_runs_and_deadlines import sweep_lost_runs_and_deadlines_of_workspaces
from harness_site.core.background_task import BackgroundTask

#: Seconds between two rounds, which is the maximum delay in noticing a missed deadline.
SWEEP_SECONDS = 5.0


class SweepTask(BackgroundTask):
    """Task that runs as long as the server. An unreachable database delays a round but does not end the task."""

    name = "sweeper"

    async def _run_until_cancelled(self) -> None:
        while True:
            try:
                await database_sync_to_async(sweep_lost_runs_and_deadlines_of_workspaces)("default")
                self.record_successful_round()
            except Exception as error:
                self.record_failure(error)
            await asyncio.sleep(SWEEP_SECONDS)
