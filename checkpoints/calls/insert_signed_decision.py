"""Insert a decision, with a signature over its terms if this process signs decisions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from checkpoints.calls.decision_signatures import sign_decision
from checkpoints.db.clock import read_database_time
from checkpoints.formats.canonical_json import to_canonical_json
from checkpoints.models import Decision
from checkpoints.seals.decision_keys import get_decision_keys
from checkpoints.seals.seal_keys import get_seal_keys


@dataclass(frozen=True)
class DecisionTerms:
    """Terms of a decision, which its signature covers beside its columns.

    Attributes:
        approvals: Number of people who have to agree.
        people: Names of those who do, the one who decides among them.
        asked_args_digest: Digest of the arguments that the call was requested with, if a person has changed them.
        decide_by: Latest time of an approver's decision; None if there is no limit.
    """

    approvals: int
    people: Sequence[str]
    asked_args_digest: str = ""
    decide_by: datetime | None = None

    def to_json(self) -> str:
        """Return the terms as canonical JSON text."""
        decide_by = None if self.decide_by is None else self.decide_by.isoformat()
        return to_canonical_json(
            {
                "approvals": self.approvals,
                "asked_args_digest": self.asked_args_digest,
                "decide_by": decide_by,
                "people": sorted(self.people),
            },
            "terms",
        )

    @classmethod
    def from_json(cls, text: str | None) -> Self:
        """Return the terms of a decision whose signature was verified, without the time, which only readers need."""
        terms = json.loads(text or "{}")
        return cls(terms.get("approvals", 0), terms.get("people", []), terms.get("asked_args_digest", ""))


def insert_decision_signed_if_enabled(decision: Decision, terms: DecisionTerms, *, using: str) -> None:
    """Insert a decision, signed if this process signs decisions. Its time is that of the database.

    A time that is signed or sealed is read before, so that it is compared with what the database stores.
    """
    keys = get_decision_keys()
    is_signing = keys is not None and keys.signing is not None
    if is_signing or get_seal_keys() is not None:
        decision.created_at = read_database_time(using)
    if is_signing:
        sign_decision(decision, terms.to_json())
    decision.save(using=using, force_insert=True)
