"""Websocket consumer of an open page: sends the changed sessions, whose parts the page then fetches."""

from time import monotonic
from typing import Any
from urllib.parse import parse_qs

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncJsonWebsocketConsumer
from django.conf import settings

from checkpoints.db import clock
from harness_site.accounts.models import Membership
from harness_site.accounts.refuse_page_of_other_reader import format_reader_key
from harness_site.accounts.user_sessions import ACTIVITY_UPDATE_INTERVAL, record_user_session_activity
from harness_site.core import formatting
from harness_site.core.datetime_parameters import parse_utc_datetime_or_none
from harness_site.live.change_feed_and_sealing_task import EVERYBODY, get_channel_group_name
from harness_site.live.changed_sessions import list_session_changes_since_with_overlap
from harness_site.live.websocket_access import find_viewer_membership

#: Seconds for which a positive permission check is cached.
TRUSTED_SECONDS = 5.0
#: Maximum number of missed changes that are sent singly; above it the page reloads everything.
MISSED_LIMIT = 200
#: Code with which a socket is closed whose reader is signed out, no member, or has another workspace or role by now.
SIGNED_OUT = 4401


class LiveConsumer(AsyncJsonWebsocketConsumer):
    """Consumer that sends `{"session": pk, "revision": n}` for each change, `{"session": null}` for "everything", and
    `{"at": time}` as a heartbeat. Ignores incoming messages."""

    async def connect(self) -> None:
        self._seen_until = 0.0
        self._session_key: str | None = self.scope["cookies"].get(settings.SESSION_COOKIE_NAME)
        membership = await self._load_viewer_membership_and_record_activity()
        if membership is None:
            # A browser reports a refused handshake as an error and tries again; it understands a code after it.
            await self.accept()
            await self.close(SIGNED_OUT)
            return
        self._workspace: int = membership.workspace_id
        self._reader = format_reader_key(membership)
        # Channels removes this consumer from these groups when the socket closes.
        self.groups = [EVERYBODY, get_channel_group_name(self._workspace)]
        for group in self.groups:
            await self.channel_layer.group_add(group, self.channel_name)
        await self.accept()
        await self._send_missed_changes()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None, **kwargs: Any) -> None:
        """Ignore messages from the browser."""

    async def live_changed(self, event: dict[str, Any]) -> None:
        await self._send_messages_or_close_if_not_permitted(
            [{"session": pk, "revision": revision} for pk, revision in event["changed"]]
        )

    async def live_heartbeat(self, event: dict[str, Any]) -> None:
        await self._send_messages_or_close_if_not_permitted([{"at": formatting.format_iso_time(clock.now())}])

    async def _send_messages_or_close_if_not_permitted(self, messages: list[dict[str, Any]]) -> None:
        if not await self._can_still_view_and_record_activity():
            await self.close(SIGNED_OUT)
            return
        for message in messages:
            await self.send_json(message)

    async def _can_still_view_and_record_activity(self) -> bool:
        if monotonic() < self._trusted_until:
            return True
        membership = await self._load_viewer_membership_and_record_activity()
        return membership is not None and format_reader_key(membership) == self._reader

    async def _load_viewer_membership_and_record_activity(self) -> Membership | None:
        self._trusted_until = monotonic() + TRUSTED_SECONDS
        if monotonic() >= self._seen_until:
            self._seen_until = monotonic() + ACTIVITY_UPDATE_INTERVAL.total_seconds()
            await database_sync_to_async(record_user_session_activity)(self._session_key)
        return await database_sync_to_async(find_viewer_membership)(self._session_key)

    async def _send_missed_changes(self) -> None:
        """Send the changes since the page was rendered."""
        since_text = parse_qs(self.scope["query_string"].decode("latin-1")).get("since", [""])[0]
        moment = parse_utc_datetime_or_none(since_text)
        if moment is None:
            return
        missed_changes = await database_sync_to_async(list_session_changes_since_with_overlap)(
            moment, workspace=self._workspace
        )
        if len(missed_changes) > MISSED_LIMIT:
            await self.send_json({"session": None})
            return
        for change in missed_changes:
            await self.send_json({"session": change.session, "revision": change.revision})
