"""Reading a chain from its beginning and saying what is wrong with it.

| what somebody did to the database | how it shows |
|---|---|
| changed an event | its seal does not belong to its content |
| removed an event | a number is missing |
| removed the newest events | the chain's end names a number that is not there |
| moved or exchanged events | the seals belong to other numbers |
| put an event in between | its number is taken, or its seal does not follow |
| took the seal off an event, to have a changed one sealed again | its old number is missing |
| removed the newest events and set the end back, or computed every seal anew | only an anchor kept elsewhere tells |

An event that is not sealed yet, normally for a second or two, is only counted: until then the database alone vouches
for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from django.db.models.functions import Now

from checkpoints.exceptions import InvalidInput
from checkpoints.integrity.chain import link
from checkpoints.integrity.sealing import seal
from checkpoints.models import AuditChain, AuditEvent

_CHUNK = 2000
#: So many flaws are named; a chain that is wrong throughout needs no longer list.
_NAMED = 20
_ANCHOR = re.compile(r"([1-9]\d{0,17}):([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Flaw:
    """`number` is the place in the chain, `what` a sentence."""

    number: int
    what: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """`checked` events were read, up to `number` with the seal `seal`; the first flaws, in order."""

    checked: int
    number: int
    seal: str
    flaws: tuple[Flaw, ...]

    @property
    def intact(self) -> bool:
        return not self.flaws

    @property
    def anchor(self) -> str:
        """What to keep elsewhere; empty while nothing is sealed."""
        return f"{self.number}:{self.seal}" if self.number else ""


def parse_anchor(text: str) -> tuple[int, str]:
    """An anchor as number and seal. Raises `InvalidInput`."""
    found = _ANCHOR.fullmatch(text.strip())
    if found is None:
        raise InvalidInput(f"{text!r} is not an anchor; verify_audit prints one: a number, a colon, 64 hex digits.")
    return int(found[1]), found[2]


def verify(workspace_pk: int, *, anchor: tuple[int, str] | None = None, using: str = "default") -> Verdict:
    """Seal what waits, check every event, and keep the outcome on the chain's row.

    `anchor` is what an earlier verification gave and somebody kept: it has to be part of the chain still.
    """
    seal(workspace_pk, using=using)
    chains = AuditChain.objects.using(using).filter(workspace=workspace_pk)
    chain = chains.get()
    reading = _Reading(anchor)
    for event in _events(workspace_pk, chain.number, using):
        reading.take(event)
    reading.finish(chain)
    reading.outside(_events_after(workspace_pk, chain.number, using), chains.get())
    verdict = Verdict(reading.checked, chain.number, chain.seal, tuple(reading.flaws))
    problem = " ".join(flaw.what for flaw in verdict.flaws[:3])
    chains.update(verified_at=Now(), verified_number=chain.number, problem=problem)
    return verdict


def _events(workspace_pk: int, upto: int, using: str) -> Iterator[AuditEvent]:
    """Events with a number up to `upto`, in order."""
    events = AuditEvent.objects.using(using).filter(workspace=workspace_pk, number__lte=upto).order_by("number")
    chunk = list(events[:_CHUNK])
    while chunk:
        yield from chunk
        chunk = list(events.filter(number__gt=chunk[-1].number)[:_CHUNK])


def _events_after(workspace_pk: int, number: int, using: str) -> list[int]:
    """Numbers beyond `number`: events sealed since it was read, and what claims a place nobody gave it."""
    events = AuditEvent.objects.using(using).filter(workspace=workspace_pk, number__gt=number)
    return [each for each in events.order_by("number").values_list("number", flat=True) if each is not None]


class _Reading:
    def __init__(self, anchor: tuple[int, str] | None) -> None:
        self.checked = 0
        self.flaws: list[Flaw] = []
        self._number = 0
        self._seal = ""
        self._anchor = anchor

    def take(self, event: AuditEvent) -> None:
        number = event.number or 0
        # What follows on something that is missing cannot be checked; that something is missing is said.
        if not self._gap(number) and event.seal != link(self._seal, number, event):
            self._wrong(number, f"Entry {number} was changed after it was recorded, or is not where it was.")
        if self._anchor and self._anchor[0] == number and self._anchor[1] != event.seal:
            self._wrong(number, f"Entry {number} is another one than when its anchor was taken.")
        self._number, self._seal = number, event.seal
        self.checked += 1

    def finish(self, chain: AuditChain) -> None:
        self._gap(chain.number + 1)
        if self._number == chain.number and self._seal != chain.seal:
            self._wrong(chain.number, "The end of the chain is not the seal of its last entry.")
        if self._anchor and self._anchor[0] > chain.number:
            self._wrong(self._anchor[0], f"The chain ends at {chain.number}, before the anchor {self._anchor[0]}.")

    def outside(self, numbers: list[int], chain: AuditChain) -> None:
        for number in numbers:
            if number > chain.number:
                self._wrong(number, f"Entry {number} claims a place that the chain, of {chain.number}, never gave.")

    def _gap(self, number: int) -> bool:
        """Whether something is missing before `number`."""
        first, last = self._number + 1, number - 1
        if first == last:
            self._wrong(first, f"Entry {first} is missing.")
        elif first < last:
            self._wrong(first, f"Entries {first} to {last} are missing.")
        return first <= last

    def _wrong(self, number: int, what: str) -> None:
        if len(self.flaws) < _NAMED:
            self.flaws.append(Flaw(number, what))
