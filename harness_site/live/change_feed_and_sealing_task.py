"""Task of each web process that polls for changed sessions and publishes them to its websockets.

The same task seals new audit events into the chain.
"""

import asyncio
from collections import defaultdict

from channels.db import database_sync_to_async
from channels.layers import BaseChannelLayer, get_channel_layer
from django.core.exceptions import ImproperlyConfigured

from checkpoints.audit import seal_events_of_all_workspaces
from checkpoints.db.clock import read_database_time
from harness_site.core.background_task import BackgroundTask
from harness_site.live.changed_sessions import ChangeCursor, SessionChange

POLL_SECONDS = 0.5
#: Interval of messages through an idle connection, so that both ends detect a lost one.
HEARTBEAT_SECONDS = 10.0
#: Interval between two rounds of sealing audit entries into the chain.
SEALING_SECONDS = 2.0
EVERYBODY = "live"


def get_channel_group_name(workspace: int) -> str:
    """Return the channel-layer group of all viewers of a workspace."""
    return f"live.{workspace}"


def get_channel_layer_or_fail() -> BaseChannelLayer:
    layer = get_channel_layer()
    if layer is None:
        raise ImproperlyConfigured("The setting CHANNEL_LAYERS needs a default.")
    return layer


class ChangeFeedTask(BackgroundTask):
    """Task that runs as long as the server. An unreachable database delays updates but does not end the task."""

    name = "live-feed"

    async def _run_until_cancelled(self) -> None:
        cursor: ChangeCursor | None = None
        next_heartbeat = next_sealing = 0.0
        clock = asyncio.get_running_loop().time
        while True:
            try:
                cursor = cursor or ChangeCursor(await database_sync_to_async(read_database_time)("default"))
                await send_changes_to_workspace_viewers(await database_sync_to_async(cursor.fetch_new_changes)())
                if clock() >= next_sealing:
                    next_sealing = clock() + SEALING_SECONDS
                    await database_sync_to_async(seal_events_of_all_workspaces)()
                if clock() >= next_heartbeat:
                    next_heartbeat = clock() + HEARTBEAT_SECONDS
                    await get_channel_layer_or_fail().group_send(EVERYBODY, {"type": "live.heartbeat"})
                self.record_successful_round()
            except Exception as error:
                self.record_failure(error)
            await asyncio.sleep(POLL_SECONDS)


async def send_changes_to_workspace_viewers(changes: list[SessionChange]) -> None:
    """Publish changes to the viewers of each workspace, in one message each."""
    by_workspace: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for change in changes:
        by_workspace[change.workspace].append((change.session, change.revision))
    layer = get_channel_layer_or_fail()
    for workspace, changed_sessions in by_workspace.items():
        await layer.group_send(get_channel_group_name(workspace), {"type": "live.changed", "changed": changed_sessions})
