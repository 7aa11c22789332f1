"""Lists of messages as this process saved or loaded them last, so that a save encodes only what is new in a list.

An element is taken for unchanged if it is the same object with equal fields. A program may change a message in place,
so its fields are compared with a copy.
"""

from __future__ import annotations

import copy
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage

from checkpoints.formats import digests
from checkpoints.versions.blobs import Encoded

#: Thread, namespace and channel of a list.
Place = tuple[str, str, str]
#: Largest number of lists that are remembered.
_MAX_LISTS = 64


@dataclass(frozen=True)
class RememberedList:
    """List whose elements are stored. `digests` are those of the elements, `root` is that of the list."""

    elements: Sequence[Any]
    fields: Sequence[Any]
    digests: Sequence[str]
    root: str

    def count_unchanged(self, elements: Sequence[Any]) -> int:
        """Return the number of elements at the beginning of a list that are stored as they are."""
        count = 0
        for element, known, fields in zip(elements, self.elements, self.fields, strict=False):
            if element is not known or _get_fields(element) != fields:
                break
            count += 1
        return count


def remember(elements: Sequence[Any], element_digests: Sequence[str], root: str) -> RememberedList | None:
    """Describe a stored list; None if it has other elements than messages, whose changes could not be noticed."""
    if not elements or not all(isinstance(element, BaseMessage) for element in elements):
        return None
    return RememberedList(list(elements), [_copy_fields(each) for each in elements], list(element_digests), root)


def extend(
    known: RememberedList, kept: int, elements: Sequence[Any], added: Sequence[Encoded], root: str
) -> RememberedList | None:
    """Describe a list that begins with the first `kept` elements of a known one."""
    new = elements[kept:]
    if not all(isinstance(element, BaseMessage) for element in new):
        return None
    return RememberedList(
        list(elements),
        [*known.fields[:kept], *map(_copy_fields, new)],
        [*known.digests[:kept], *(digests.digest_blob(*item) for item in added)],
        root,
    )


def _get_fields(message: BaseMessage) -> Any:
    return message.__dict__, message.__pydantic_extra__


def _copy_fields(message: BaseMessage) -> Any:
    fields = {
        name: copy.deepcopy(value) if isinstance(value, list | dict) else value
        for name, value in message.__dict__.items()
    }
    return fields, copy.deepcopy(message.__pydantic_extra__)


class ListMemory:
    """Remembered lists of a saver, the newest of each place. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lists: OrderedDict[Place, RememberedList] = OrderedDict()
        #: Newest version of each thread, and the digests of the messages that are its transcript.
        self._transcripts: OrderedDict[str, tuple[int, Sequence[str]]] = OrderedDict()

    def find_list(self, place: Place) -> RememberedList | None:
        """Return the list of a place."""
        with self._lock:
            return self._lists.get(place)

    def set_list(self, place: Place, known: RememberedList | None) -> None:
        """Remember a list; None forgets the one before it."""
        with self._lock:
            self._lists.pop(place, None)
            if known is not None:
                self._lists[place] = known
                while len(self._lists) > _MAX_LISTS:
                    self._lists.popitem(last=False)

    def find_transcript(self, thread_id: str) -> tuple[int, Sequence[str]] | None:
        """Return the newest version that this process knows, and the digests of its messages."""
        with self._lock:
            return self._transcripts.get(thread_id)

    def set_transcript(self, thread_id: str, version: int, message_digests: Sequence[str]) -> None:
        """Remember what the transcript of a version is."""
        with self._lock:
            self._transcripts.pop(thread_id, None)
            self._transcripts[thread_id] = (version, message_digests)
            while len(self._transcripts) > _MAX_LISTS:
                self._transcripts.popitem(last=False)
