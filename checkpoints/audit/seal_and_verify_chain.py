"""Verify a hash chain from its beginning and report its flaws.

| change made to the database | symptom |
|---|---|
| changed an event | its seal does not match its content |
| removed an event | a number is missing |
| removed the newest events | the chain's end names a number that is not there |
| moved or exchanged events | the seals match other numbers |
| put an event in between | its number is taken, or its seal does not follow |
| invented an event, where events are sealed with a key | its row has no seal, or a wrong one |
| took the seal off an event, to have a changed one sealed again | its old number is missing |
| removed the newest events and set the end back, or computed every seal anew | only an anchor kept elsewhere tells |

An event that is not sealed yet, normally for a second or two, is only counted: until then the chain does not protect
it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from django.db.models.functions import Now

from checkpoints.audit.chained_event_digest import compute_chained_event_digest
from checkpoints.audit.number_and_chain_events import seal_events_of_workspace
from checkpoints.exceptions import IntegrityError, InvalidInput
from checkpoints.models import AuditChain, AuditEvent
from checkpoints.seals import row_seals, sealed_model

_CHUNK = 2000
#: Largest number of reported flaws; a chain that is wrong throughout needs no longer list.
_MAX_LISTED_FLAWS = 20
_ANCHOR_PATTERN = re.compile(r"([1-9]\d{0,17}):([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class ChainFlaw:
    """Flaw of a chain: `number` is the place in the chain, `what` a sentence."""

    number: int
    what: str


@dataclass(frozen=True, slots=True)
class ChainVerdict:
    """Result of a verification: `checked` events were read, up to `number` with the seal `seal`; the first flaws,
    in order."""

    checked: int
    number: int
    seal: str
    flaws: tuple[ChainFlaw, ...]

    @property
    def is_intact(self) -> bool:
        return not self.flaws

    @property
    def anchor(self) -> str:
        """Anchor to keep elsewhere; empty while nothing is sealed."""
        return f"{self.number}:{self.seal}" if self.number else ""


def parse_anchor(text: str) -> tuple[int, str]:
    """Parse an anchor as number and seal. Raises `InvalidInput`."""
    match = _ANCHOR_PATTERN.fullmatch(text.strip())
    if match is None:
        raise InvalidInput(f"{text!r} is not an anchor; verify_audit prints one: a number, a colon, 64 hex digits.")
    return int(match[1]), match[2]


def seal_and_verify_chain_and_store_result(
    workspace_pk: int, *, anchor: tuple[int, str] | None = None, using: str = "default"
) -> ChainVerdict:
    """Seal waiting events, check every event, and store the result on the chain's row.

    `anchor` is one that an earlier verification returned and somebody kept: it still has to be part of the chain.
    """
    seal_events_of_workspace(workspace_pk, using=using)
    chains = AuditChain.objects.using(using).filter(workspace=workspace_pk)
    chain = chains.get()
    reading = _ChainVerifier(anchor)
    for event in _iterate_sealed_events(workspace_pk, chain.number, using):
        reading.check_event_and_add_flaws(event)
    reading.check_head_and_add_flaws(chain)
    reading.add_flaws_of_events_beyond_end(_find_event_numbers_after(workspace_pk, chain.number, using), chains.get())
    verdict = ChainVerdict(reading.checked, chain.number, chain.seal, tuple(reading.flaws))
    problem = " ".join(flaw.what for flaw in verdict.flaws[:3])
    sealed_model.write_sealed_workspace_report(
        AuditChain, using, workspace_pk, verified_at=Now(), verified_number=chain.number, problem=problem
    )
    return verdict


def _iterate_sealed_events(workspace_pk: int, upto: int, using: str) -> Iterator[AuditEvent]:
    """Iterate over the events with a number up to `upto`, in order."""
    events = AuditEvent.objects.using(using).filter(workspace=workspace_pk, number__lte=upto).order_by("number")
    chunk = list(events[:_CHUNK])
    while chunk:
        yield from chunk
        chunk = list(events.filter(number__gt=chunk[-1].number)[:_CHUNK])


def _find_event_numbers_after(workspace_pk: int, number: int, using: str) -> list[int]:
    """Find the numbers beyond `number`: events sealed since it was read, and events with a number nobody assigned."""
    events = AuditEvent.objects.using(using).filter(workspace=workspace_pk, number__gt=number)
    return [
        event_number
        for event_number in events.order_by("number").values_list("number", flat=True)
        if event_number is not None
    ]


class _ChainVerifier:
    def __init__(self, anchor: tuple[int, str] | None) -> None:
        self.checked = 0
        self.flaws: list[ChainFlaw] = []
        self._number = 0
        self._seal = ""
        self._anchor = anchor

    def check_event_and_add_flaws(self, event: AuditEvent) -> None:
        number = event.number or 0
        # An event after a missing one cannot be checked; the missing one is reported.
        if not self._add_flaw_if_events_are_missing_before(number) and event.seal != compute_chained_event_digest(
            self._seal, number, event
        ):
            self._add_chain_flaw(number, f"Entry {number} was changed after it was recorded, or is not where it was.")
        try:
            row_seals.verify_row(event)
        except IntegrityError as error:
            self._add_chain_flaw(number, f"Entry {number} was not written by this library: {error.why}.")
        if self._anchor and self._anchor[0] == number and self._anchor[1] != event.seal:
            self._add_chain_flaw(number, f"Entry {number} is another one than when its anchor was taken.")
        self._number, self._seal = number, event.seal
        self.checked += 1

    def check_head_and_add_flaws(self, chain: AuditChain) -> None:
        self._add_flaw_if_events_are_missing_before(chain.number + 1)
        if self._number == chain.number and self._seal != chain.seal:
            self._add_chain_flaw(chain.number, "The end of the chain is not the digest of its last entry.")
        if self._anchor and self._anchor[0] > chain.number:
            self._add_chain_flaw(
                self._anchor[0], f"The chain ends at {chain.number}, before the anchor {self._anchor[0]}."
            )

    def add_flaws_of_events_beyond_end(self, numbers: list[int], chain: AuditChain) -> None:
        for number in numbers:
            if number > chain.number:
                self._add_chain_flaw(
                    number, f"Entry {number} claims a place that the chain, of {chain.number}, never gave."
                )

    def _add_flaw_if_events_are_missing_before(self, number: int) -> bool:
        """Return whether a number is missing before `number`."""
        first, last = self._number + 1, number - 1
        if first == last:
            self._add_chain_flaw(first, f"Entry {first} is missing.")
        elif first < last:
            self._add_chain_flaw(first, f"Entries {first} to {last} are missing.")
        return first <= last

    def _add_chain_flaw(self, number: int, what: str) -> None:
        if len(self.flaws) < _MAX_LISTED_FLAWS:
            self.flaws.append(ChainFlaw(number, what))
