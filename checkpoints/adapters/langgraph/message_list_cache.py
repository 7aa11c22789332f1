"""Lists of messages as this process saved or loaded them last: a save encodes, and a load reads, only what is new.

An element is taken for unchanged if it is the same object with equal fields. A program may change a message in place,
so its fields are compared with a copy, and each load gets messages of its own.
"""

from __future__ import annotations

import copy
import operator
import threading
from bisect import bisect_left
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from langchain_core.messages import BaseMessage
from pydantic import BaseModel

from checkpoints.versions.framework_value_blobs import EMPTY_LIST_NODES, Encoded, ListNodes, build_list_nodes

#: Thread, namespace and channel of a list.
ChannelKey = tuple[str, str, str]
#: Largest number of lists that are remembered.
_MAX_LISTS = 64
#: Types of values that a program cannot change in place.
_IMMUTABLE = frozenset({str, int, float, bool, bytes, type(None)})
#: Types whose empty values are made anew instead of copied; and empty values of them that no program gets.
_EMPTY_CONTAINERS: Final[Mapping[type[Any], Any]] = {list: [], dict: {}}
_get_values, _get_extra = operator.attrgetter("__dict__"), operator.attrgetter("__pydantic_extra__")
_new = object.__new__
#: Functions that set what a message consists of, without the checks and the search for the attribute.
_set_values, _set_extra, _set_fields_set, _set_private = (
    BaseModel.__dict__[name].__set__
    for name in ("__dict__", "__pydantic_extra__", "__pydantic_fields_set__", "__pydantic_private__")
)


class MessageFields(NamedTuple):
    """Fields of messages: those of their classes, and those that these do not declare."""

    values: Sequence[dict[str, Any]]
    extras: Sequence[dict[str, Any] | None]

    def build_extended_fields(self, kept: int, added: MessageFields) -> MessageFields:
        """Return the fields of the first `kept` messages, and of others after them."""
        return MessageFields([*self.values[:kept], *added.values], [*self.extras[:kept], *added.extras])


@dataclass(frozen=True)
class CachedMessages:
    """Messages of a list as a load gives them, of which no program has an object; prepared for copies.

    A list of a thousand messages is copied by each load, in a few loops over a part of all messages. Nearly all fields
    that a program may change in place are empty, and are made anew instead of copied.

    Attributes:
        fields: Fields of the messages, as `copy_message_fields` returns them, which nothing changes.
        classes: Their classes.
        fields_sets: Names of the fields that were set, of each message.
        private: Private attributes of each message.
        empty: Places of the messages with a field that is an empty container, by its name and type.
        filled: Names of the other fields that a program may change in place, by the places of their messages.
    """

    fields: MessageFields
    classes: Sequence[type[BaseMessage]]
    fields_sets: Sequence[set[str]]
    private: Sequence[dict[str, Any] | None]
    empty: Mapping[tuple[str, type[Any]], Sequence[int]]
    filled: Mapping[int, Sequence[str]]

    def build_messages(self) -> list[BaseMessage]:
        """Return new messages of the same classes with equal fields, as `copy.deepcopy` does more slowly."""
        messages = list(map(_new, self.classes))
        values = list(map(dict.copy, self.fields.values))
        for (name, make), places in self.empty.items():
            for place in places:
                values[place][name] = make()
        for place, names in self.filled.items():
            for name in names:
                values[place][name] = copy.deepcopy(values[place][name])
        _call_for_each(_set_values, messages, values)
        _call_for_each(
            _set_extra,
            messages,
            [copy.deepcopy(extra) if extra else None if extra is None else {} for extra in self.fields.extras],
        )
        _call_for_each(_set_fields_set, messages, map(set.copy, self.fields_sets))
        _call_for_each(_set_private, messages, [each if each is None else copy.deepcopy(each) for each in self.private])
        return messages

    def build_extended_messages(self, kept: int, added: CachedMessages) -> CachedMessages:
        """Return the first `kept` messages, and others after them."""
        empty = {key: places[: bisect_left(places, kept)] for key, places in self.empty.items()}
        for key, places in added.empty.items():
            empty[key] = [*empty.get(key, ()), *(kept + place for place in places)]
        return CachedMessages(
            self.fields.build_extended_fields(kept, added.fields),
            [*self.classes[:kept], *added.classes],
            [*self.fields_sets[:kept], *added.fields_sets],
            [*self.private[:kept], *added.private],
            empty,
            {
                **{place: names for place, names in self.filled.items() if place < kept},
                **{kept + place: names for place, names in added.filled.items()},
            },
        )


def _call_for_each(function: Callable[..., object], *arguments: Iterable[Any]) -> None:
    deque(map(function, *arguments), maxlen=0)


@dataclass(frozen=True)
class SavedList:
    """List whose elements are stored.

    Attributes:
        elements: Messages as the program has them.
        fields: Their fields when they were saved or loaded.
        stored: Messages as a load gives them.
        digests: Digests of the stored elements.
        nodes: Nodes of the stored list.
    """

    elements: Sequence[BaseMessage]
    fields: MessageFields
    stored: CachedMessages
    digests: Sequence[str]
    nodes: ListNodes

    def get_nodes_of_first_elements(self, count: int) -> ListNodes:
        """Return the nodes of a list of the first `count` elements."""
        return self.nodes if count == len(self.digests) else build_list_nodes(self.digests[:count])

    def count_unchanged_first_elements(self, elements: Sequence[Any]) -> int:
        """Return the number of elements at the beginning of a list that are stored as they are."""
        if self._is_beginning_of(elements):
            return len(self.elements)
        count = 0
        for element, known, values, extra in zip(elements, self.elements, *self.fields, strict=False):
            if element is not known or not _have_unchanged_field_values([element], MessageFields([values], [extra])):
                break
            count += 1
        return count

    def _is_beginning_of(self, elements: Sequence[Any]) -> bool:
        """Return whether a list begins with all elements, unchanged; by comparisons of whole lists, without a loop."""
        count = len(self.elements)
        if len(elements) < count or not all(map(operator.is_, self.elements, elements)):
            return False
        return _have_unchanged_field_values(self.elements, self.fields)

    def copy_with_own_messages(self) -> SavedList:
        """Return the list with messages of its own, as a load gives them."""
        return SavedList(self.stored.build_messages(), self.stored.fields, self.stored, self.digests, self.nodes)

    def build_extended_list(
        self,
        kept: int,
        elements: Sequence[Any],
        fields: MessageFields | None,
        stored: CachedMessages | None,
        added: Sequence[str],
        nodes: ListNodes,
    ) -> SavedList | None:
        """Describe a list that begins with the first `kept` elements of this one.

        Args:
            kept: Number of elements.
            elements: The whole list.
            fields: Fields of its other elements, copied before these were encoded.
            stored: These elements as a load gives them; None if one is no message.
            added: Digests of these.
            nodes: Nodes of the list.

        Returns:
            The list; None if it has other elements than messages, whose changes could not be noticed.
        """
        if not elements or fields is None or stored is None:
            return None
        return SavedList(
            list(elements),
            self.fields.build_extended_fields(kept, fields),
            self.stored.build_extended_messages(kept, stored),
            [*self.digests[:kept], *added],
            nodes,
        )


_NO_FIELDS = MessageFields((), ())
#: List without elements, from which others grow.
EMPTY_LIST = SavedList((), _NO_FIELDS, CachedMessages(_NO_FIELDS, (), (), (), {}, {}), (), EMPTY_LIST_NODES)


def build_messages_to_copy_for_loads(messages: Sequence[Any], fields: MessageFields | None) -> CachedMessages | None:
    """Build what a load gives from messages and copies of their fields, as `copy_message_fields` returns them.

    None without these, or if a message has a private attribute that cannot be copied.
    """
    if fields is None:
        return None
    empty: defaultdict[tuple[str, type[Any]], list[int]] = defaultdict(list)
    filled: defaultdict[int, list[str]] = defaultdict(list)
    for place, values in enumerate(fields.values):
        for name, value in values.items():
            kind = type(value)
            if kind in _IMMUTABLE:
                continue
            if kind in _EMPTY_CONTAINERS and not value:
                empty[name, kind].append(place)
            else:
                filled[place].append(name)
    try:
        private = [copy.deepcopy(each.__pydantic_private__) for each in messages]
    except Exception:  # of a type of the program
        return None
    fields_sets = [each.__pydantic_fields_set__.copy() for each in messages]
    return CachedMessages(fields, list(map(type, messages)), fields_sets, private, dict(empty), dict(filled))


def copy_message_fields(elements: Sequence[Any]) -> MessageFields | None:
    """Copy the fields of messages that are about to be encoded.

    A thread of the program may change a message while it is encoded. The copy from before then differs from it, so the
    next save encodes it again. None if there are other elements, a message has something that cannot be copied, or it
    changes during the copy.
    """
    if not all(isinstance(each, BaseMessage) for each in elements):
        return None
    try:
        return MessageFields(
            [_copy_field_values(each.__dict__) for each in elements],
            [_copy_extra_fields(each.__pydantic_extra__) for each in elements],
        )
    except Exception:  # of a type of the program, or a dictionary that has got another size
        return None


def _have_unchanged_field_values(messages: Sequence[BaseMessage], fields: MessageFields) -> bool:
    """Return whether messages have these fields. What cannot be compared, such as a table of numbers, is another."""
    try:
        return bool(
            list(map(_get_values, messages)) == fields.values and list(map(_get_extra, messages)) == fields.extras
        )
    except Exception:  # of a type of the program
        return False


def _copy_field_values(values: dict[str, Any]) -> dict[str, Any]:
    copied = values.copy()
    for name, value in values.items():
        kind = type(value)
        if kind not in _IMMUTABLE:
            copied[name] = _EMPTY_CONTAINERS[kind] if kind in _EMPTY_CONTAINERS and not value else copy.deepcopy(value)
    return copied


def _copy_extra_fields(extra: dict[str, Any] | None) -> dict[str, Any] | None:
    if extra is None:
        return None
    return copy.deepcopy(extra) if extra else {}


class ListMemory:
    """Saved lists of a saver, the newest of each channel. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lists: OrderedDict[ChannelKey, SavedList] = OrderedDict()
        #: Messages that were written since the last state, by identity, and values that contain them as bytes.
        self._written: OrderedDict[tuple[str, str], dict[int, tuple[BaseMessage, Encoded]]] = OrderedDict()
        #: Digest of the newest transcript of each thread, and the digests of the messages that it shows.
        self._transcripts: OrderedDict[str, tuple[bytes, Sequence[str]]] = OrderedDict()

    def find_saved_list_of_channel(self, channel_key: ChannelKey) -> SavedList | None:
        """Return the saved list of a channel."""
        with self._lock:
            return self._lists.get(channel_key)

    def map_saved_lists_by_digest(self, thread_id: str, namespace: str) -> dict[str, SavedList]:
        """Return the lists of a thread and namespace, by their digests."""
        with self._lock:
            found = [known for key, known in self._lists.items() if key[:2] == (thread_id, namespace)]
        return {known.nodes.digest: known for known in found}

    def remember_or_forget_list(self, channel_key: ChannelKey, known: SavedList | None) -> None:
        """Remember a list; None forgets the one before it."""
        with self._lock:
            self._lists.pop(channel_key, None)
            if known is not None:
                self._lists[channel_key] = known
                while len(self._lists) > _MAX_LISTS:
                    self._lists.popitem(last=False)

    def remember_encoded_values_of_messages(
        self, thread_id: str, namespace: str, written: Iterable[tuple[Any, Encoded]]
    ) -> None:
        """Remember messages of a thread and namespace, each with a stored value that contains it.

        A message that is remembered already keeps its value.
        """
        added = {id(each): (each, value) for each, value in written if isinstance(each, BaseMessage)}
        with self._lock:
            known = self._written.pop((thread_id, namespace), {})
            self._written[thread_id, namespace] = {**added, **known}
            while len(self._written) > _MAX_LISTS:
                self._written.popitem(last=False)

    def take_written_messages(self, thread_id: str, namespace: str) -> Mapping[int, tuple[BaseMessage, Encoded]]:
        """Return and forget the messages that were written since the last state."""
        with self._lock:
            return self._written.pop((thread_id, namespace), {})

    def map_written_messages_by_identity(
        self, thread_id: str, namespace: str
    ) -> Mapping[int, tuple[BaseMessage, Encoded]]:
        """Return the messages that were written since the last state, by identity."""
        with self._lock:
            return self._written.get((thread_id, namespace), {})

    def find_transcript_digests(self, thread_id: str) -> tuple[bytes, Sequence[str]] | None:
        """Return the digest of the newest transcript that this process knows, and the digests of its messages."""
        with self._lock:
            return self._transcripts.get(thread_id)

    def remember_transcript_digests(self, thread_id: str, chain: bytes, message_digests: Sequence[str]) -> None:
        """Remember which messages the transcript with the digest `chain` shows."""
        with self._lock:
            self._transcripts.pop(thread_id, None)
            self._transcripts[thread_id] = (chain, message_digests)
            while len(self._transcripts) > _MAX_LISTS:
                self._transcripts.popitem(last=False)
