"""One task per web process: reads what changed and hands it to the browsers of this process."""

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

from channels.db import database_sync_to_async
from channels.layers import BaseChannelLayer, get_channel_layer
from django.core.exceptions import ImproperlyConfigured

from checkpoints.clock import database_now
from harness_site.live.changes import Change, Cursor

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.5
#: Sent through an idle connection, so that both ends notice when the other one is gone.
HEARTBEAT_SECONDS = 10.0
EVERYBODY = "live"

Send = Callable[[dict[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]


def group_of(workspace: int) -> str:
    """The channel-layer group of everybody who looks at a workspace."""
    return f"live.{workspace}"


def layer() -> BaseChannelLayer:
    found = get_channel_layer()
    if found is None:
        raise ImproperlyConfigured("The setting CHANNEL_LAYERS needs a default.")
    return found


class Feed:
    """Starts and stops with the server. A database that is away for a while delays the news, it does not end it."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="live-feed")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        cursor: Cursor | None = None
        next_heartbeat = 0.0
        clock = asyncio.get_running_loop().time
        while True:
            try:
                cursor = cursor or Cursor(await database_sync_to_async(database_now)("default"))
                await publish(await database_sync_to_async(cursor.read)())
                if clock() >= next_heartbeat:
                    next_heartbeat = clock() + HEARTBEAT_SECONDS
                    await layer().group_send(EVERYBODY, {"type": "live.heartbeat"})
            except Exception:
                logger.exception("The live feed could not read what changed; it tries again.")
            await asyncio.sleep(POLL_SECONDS)


async def publish(changes: list[Change]) -> None:
    """Tell the browsers of each workspace, in one message each."""
    by_workspace: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for change in changes:
        by_workspace[change.workspace].append((change.session, change.revision))
    sending = layer()
    for workspace, pairs in by_workspace.items():
        await sending.group_send(group_of(workspace), {"type": "live.changed", "changed": pairs})


async def lifespan(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """The ASGI lifespan protocol: the feed runs from startup to shutdown."""
    feed = Feed()
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            await feed.start()
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            await feed.stop()
            await send({"type": "lifespan.shutdown.complete"})
            return
