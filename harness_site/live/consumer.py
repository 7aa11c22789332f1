"""The websocket of an open page: it is told which sessions changed, and asks for their pages itself."""

from time import monotonic
from typing import Any
from urllib.parse import parse_qs

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncJsonWebsocketConsumer
from django.conf import settings

from checkpoints import clock
from harness_site import wording
from harness_site.accounts.models import Membership
from harness_site.live.changes import changed_since
from harness_site.live.feed import EVERYBODY, group_of
from harness_site.live.viewer import viewer
from harness_site.time_parameters import parse_moment

#: How long an answer to "may they still look?" is taken for granted, in seconds.
TRUSTED_SECONDS = 5.0
#: A browser that missed more than this is told to read everything again.
MISSED_LIMIT = 200
SIGNED_OUT = 4401


class LiveConsumer(AsyncJsonWebsocketConsumer):
    """Sends `{"session": pk, "revision": n}` for each change, `{"session": null}` for "everything", and
    `{"at": time}` now and then. Takes no message."""

    async def connect(self) -> None:
        self._session_key: str | None = self.scope["cookies"].get(settings.SESSION_COOKIE_NAME)
        found = await self._viewer()
        if found is None:
            await self.close()
            return
        self._workspace: int = found.workspace_id
        # Channels takes this consumer out of these when the socket closes.
        self.groups = [EVERYBODY, group_of(self._workspace)]
        for group in self.groups:
            await self.channel_layer.group_add(group, self.channel_name)
        await self.accept()
        await self._catch_up()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None, **kwargs: Any) -> None:
        """Nothing a browser says here means anything."""

    async def live_changed(self, event: dict[str, Any]) -> None:
        await self._tell([{"session": pk, "revision": revision} for pk, revision in event["changed"]])

    async def live_heartbeat(self, event: dict[str, Any]) -> None:
        await self._tell([{"at": wording.iso(clock.now())}])

    async def _tell(self, messages: list[dict[str, Any]]) -> None:
        if not await self._may_still_look():
            await self.close(SIGNED_OUT)
            return
        for message in messages:
            await self.send_json(message)

    async def _may_still_look(self) -> bool:
        if monotonic() < self._trusted_until:
            return True
        found = await self._viewer()
        return found is not None and found.workspace_id == self._workspace

    async def _viewer(self) -> Membership | None:
        self._trusted_until = monotonic() + TRUSTED_SECONDS
        return await database_sync_to_async(viewer)(self._session_key)

    async def _catch_up(self) -> None:
        """What changed between the making of the page and now."""
        since = parse_qs(self.scope["query_string"].decode("latin-1")).get("since", [""])[0]
        moment = parse_moment(since)
        if moment is None:
            return
        missed = await database_sync_to_async(changed_since)(moment, workspace=self._workspace)
        if len(missed) > MISSED_LIMIT:
            await self.send_json({"session": None})
            return
        for change in missed:
            await self.send_json({"session": change.session, "revision": change.revision})
