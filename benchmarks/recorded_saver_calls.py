"""Calls that a graph makes to its saver: recorded once, and made again to any saver, without the graph.

A graph computes on other threads while its saver works, so the time of a call in it is not that of the saver alone.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)

#: Calls that store something.
WRITING: Final = frozenset({"put", "put_writes"})


@dataclass(frozen=True)
class _RecordedMessage:
    """Message in the arguments of a call, and the identifier that it had then: reducers give it one in place."""

    message: BaseMessage
    id: str | None


@dataclass(frozen=True)
class _RecordedList:
    """List that begins with the first `kept` messages of the last load."""

    kept: int
    others: Sequence[Any]


@dataclass(frozen=True)
class RecordedCall:
    """Call of a saver: the name of the method, and its arguments with a `_RecordedMessage` for each message.

    `loaded` are the messages that a load has returned.
    """

    name: str
    args: Sequence[Any]
    loaded: Sequence[BaseMessage] = ()


class RecordingSaver(BaseCheckpointSaver[str]):  # type: ignore[misc]
    """Saver that keeps the newest state of one thread as objects, and records the calls of the graph.

    Args:
        get_next_version: Method of the saver whose calls are to be like these.
    """

    def __init__(self, get_next_version: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self._get_next_version = get_next_version
        self._newest: CheckpointTuple | None = None
        self._loaded: list[BaseMessage] = []
        self.calls: list[RecordedCall] = []

    def get_next_version(self, current: Any, channel: Any) -> Any:
        return self._get_next_version(current, channel)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        found = self._newest
        if found is not None:
            values = _copy_with_objects_replaced(
                found.checkpoint["channel_values"], BaseMessage, lambda message: message.model_copy()
            )
            found = found._replace(checkpoint={**found.checkpoint, "channel_values": values})
        self._loaded = _list_state_messages(found)
        self.calls.append(RecordedCall("get_tuple", self._build_recorded_value([config]), self._loaded))
        return found

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        self.calls.append(RecordedCall("put", self._build_recorded_value([config, checkpoint, metadata, new_versions])))
        place = {**config["configurable"], "checkpoint_id": checkpoint["id"]}
        stored: RunnableConfig = {"configurable": place}
        self._newest = CheckpointTuple(stored, checkpoint, metadata, None, [])
        return stored

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        self.calls.append(RecordedCall("put_writes", self._build_recorded_value([config, writes, task_id, task_path])))

    def _build_recorded_value(self, value: Any) -> Any:
        if isinstance(value, list) and self._loaded:
            pairs = zip(value, self._loaded, strict=False)
            kept = next((place for place, (item, loaded) in enumerate(pairs) if item is not loaded), None)
            kept = min(len(value), len(self._loaded)) if kept is None else kept
            return _RecordedList(kept, [self._build_recorded_value(item) for item in value[kept:]])
        if isinstance(value, BaseMessage):
            return _RecordedMessage(value, value.id)
        return _copy_with_items_mapped(value, self._build_recorded_value)


@dataclass
class RecordedCallPlayer:
    """Player that makes recorded calls to a saver, with messages of its own.

    Attributes:
        saver: The saver.
        loaded: Messages of the last load.
        messages: Other messages of this player, by the identity of recorded ones.
    """

    saver: Any
    loaded: list[BaseMessage] = field(default_factory=list)
    messages: dict[int, BaseMessage] = field(default_factory=dict)

    def make_calls_and_measure_by_method(self, calls: Sequence[RecordedCall]) -> dict[str, float]:
        """Make calls. Returns the seconds that the saver took, by the name of the method."""
        seconds: dict[str, float] = {}
        for call in calls:
            args, method = self._build_replayed_value(call.args), getattr(self.saver, call.name)
            start = time.perf_counter()
            returned = method(*args)
            seconds[call.name] = seconds.get(call.name, 0.0) + time.perf_counter() - start
            if call.name == "get_tuple":
                self.loaded, self.messages = _list_state_messages(returned), {}
                if len(self.loaded) != len(call.loaded):
                    raise ValueError("The saver has loaded another number of messages than the graph has.")
        return seconds

    def _build_replayed_value(self, recorded: Any) -> Any:
        if isinstance(recorded, _RecordedMessage):
            return self._get_or_copy_own_message(recorded)
        if isinstance(recorded, _RecordedList):
            return [*self.loaded[: recorded.kept], *map(self._build_replayed_value, recorded.others)]
        return _copy_with_items_mapped(recorded, self._build_replayed_value)

    def _get_or_copy_own_message(self, recorded: _RecordedMessage) -> BaseMessage:
        own = self.messages.get(id(recorded.message))
        if own is None:
            own = self.messages[id(recorded.message)] = recorded.message.model_copy()
        if own.id != recorded.id:
            own.id = recorded.id
        return own


def _list_state_messages(found: CheckpointTuple | None) -> list[BaseMessage]:
    """List the messages of a state, quickly: a player does this in the time that is measured."""
    values = [] if found is None else found.checkpoint["channel_values"].values()
    return [each for value in values if type(value) is list for each in value if isinstance(each, BaseMessage)]


def _copy_with_objects_replaced(value: Any, kind: type[Any], replace: Callable[[Any], Any]) -> Any:
    """Copy dictionaries and sequences, with the objects of a type in them replaced."""
    if isinstance(value, kind):
        return replace(value)
    return _copy_with_items_mapped(value, lambda item: _copy_with_objects_replaced(item, kind, replace))


def _copy_with_items_mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Copy a dictionary or a sequence with each item changed; anything else is returned as it is."""
    if isinstance(value, dict):
        return {name: change(item) for name, item in value.items()}
    if isinstance(value, (list, tuple, deque)):
        return type(value)(map(change, value))
    return value
