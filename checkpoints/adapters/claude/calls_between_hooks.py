"""Calls that a hook has let run and whose outcome no hook has reported yet.

A program that is killed, or whose turn is interrupted, calls no second hook. That a later hook belongs to another turn
shows that such a call has ended.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from checkpoints.adapters.claude.transcript_keys import TranscriptKey
from checkpoints.calls.tool_result_and_verify_answer_types import ToolResult
from checkpoints.exceptions import CheckpointsError, ReviewRequired
from checkpoints.store.database_client_state import Store
from checkpoints.sync_client import SyncCheckpointer

logger = logging.getLogger(__name__)


class CallFailed(Exception):
    """Failure that the tool reports: its effect did not happen."""


class OutcomeUnknown(TimeoutError):
    """Failure that leaves it open if the effect happened."""


class CallRefused(Exception):
    """The program refused the call after the guard had let it run."""


@dataclass(frozen=True)
class Turn:
    """Turn of a program: a resumed one writes to a file of its own, and each prompt has an id.

    The prompt is empty while a program continues the call that the one before it has deferred.
    """

    path: str
    prompt: str


def get_turn_of_hook(hook: Mapping[str, Any]) -> Turn:
    """Return the turn that a hook belongs to, from the input of the hook."""
    return Turn(str(hook.get("transcript_path", "")), str(hook.get("prompt_id", "")))


class CallBetweenHooks:
    """Call between its two hooks. Its task runs in the event loop of the first one."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self._loop = asyncio.get_running_loop()
        #: Arguments with which it is to run, once the guard lets it.
        self.started: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        self.task: asyncio.Task[ToolResult] | None = None
        self._outcome: asyncio.Future[Any] = self._loop.create_future()
        self._logged: concurrent.futures.Future[None] = concurrent.futures.Future()

    def set_guarding_task(self, task: asyncio.Task[ToolResult]) -> None:
        """Note the task that guards the call."""
        self.task = task
        task.add_done_callback(self._warn_of_task_error_and_mark_logged)

    async def mark_started_and_wait_for_outcome(self, args: dict[str, Any]) -> Any:
        self.started.set_result(args)
        return await self._outcome

    async def set_outcome_and_wait_until_logged(self, value: Any) -> None:
        """Give the call its outcome, a value or an exception, and wait until it is logged. Any event loop may do so."""
        with suppress(RuntimeError):  # the loop is closed, which has ended the task
            self._loop.call_soon_threadsafe(self._set_outcome, value)
            await asyncio.wrap_future(self._logged)

    def _set_outcome(self, value: Any) -> None:
        if self._outcome.done():
            return
        if isinstance(value, Exception):
            self._outcome.set_exception(value)
        else:
            self._outcome.set_result(value)

    def _warn_of_task_error_and_mark_logged(self, task: asyncio.Task[ToolResult]) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, CheckpointsError) and not isinstance(error, ReviewRequired) and self.started.done():
            logger.warning("The outcome of a call was not logged as reported: %s", error)
        self._logged.set_result(None)


class CallsBetweenHooks:
    """Calls of one client between their hooks. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: dict[tuple[TranscriptKey, str], CallBetweenHooks] = {}

    @classmethod
    def get_for_client(cls, checkpointer: SyncCheckpointer) -> CallsBetweenHooks:
        """Return the calls of a client, the same object for the same client: an agent may get new hooks for each turn.

        Args:
            checkpointer: Blocking client.
        """
        with _creation_lock:
            return _calls.setdefault(checkpointer.store, cls())

    def add_call(self, key: TranscriptKey, call_id: str, call: CallBetweenHooks) -> None:
        """Add a call of an agent."""
        with self._lock:
            self._calls[key, call_id] = call

    def pop_call_or_none(self, key: TranscriptKey, call_id: str) -> CallBetweenHooks | None:
        """Take a call away; None if there is no such one."""
        with self._lock:
            return self._calls.pop((key, call_id), None)

    def collect_call_ids(self, key: TranscriptKey) -> set[str]:
        """List the ids of the calls of an agent."""
        with self._lock:
            return {call_id for of, call_id in self._calls if of == key}

    def pop_calls_of_ended_turns(
        self, key: TranscriptKey, turn: Turn, call_id: str = ""
    ) -> dict[tuple[TranscriptKey, str], CallBetweenHooks]:
        """Take away the calls of a main agent and its subagents that cannot run any more.

        A subagent may run in the background while the main agent gets the next prompt.

        Args:
            key: Agent of which a hook is called.
            turn: Turn of the hook.
            call_id: Id of the call that the hook is about; it is requested again if it is one of the calls.

        Returns:
            The calls, by agent and id.
        """
        with self._lock:
            ended = {
                (of, other): call
                for (of, other), call in self._calls.items()
                if of.root_session_id == key.root_session_id
                and (
                    call.turn.path != turn.path
                    or (of, other) == (key, call_id)
                    or (not of.subpath and not key.subpath and call.turn.prompt != turn.prompt)
                )
            }
            for place in ended:
                del self._calls[place]
        return ended


_calls: weakref.WeakKeyDictionary[Store, CallsBetweenHooks] = weakref.WeakKeyDictionary()
_creation_lock = threading.Lock()
