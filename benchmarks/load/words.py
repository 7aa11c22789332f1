"""What is said in generated sessions: the same for the same seed. Some words are common, some are rare."""

from __future__ import annotations

from itertools import accumulate
from random import Random
from typing import Final

_SYLLABLES: Final = tuple(a + b for a, b in zip("bcdfghjklmnprstvwxyz", "aeiou" * 4, strict=True))
#: In the sentences of every seed: each is about half as common as the one before it.
KNOWN: Final = ("refund", "customer", "invoice", "lamp", "warehouse", "退款", "возврат", "überweisung")
_VOCABULARY: Final = 4_000
_SENTENCES: Final = 4_000
TOOLS: Final = ("refund_card", "send_mail", "look_up_order", "create_label", "charge_card", "close_ticket")
AGENTS: Final = tuple(f"desk-{number}" for number in range(1, 25))
LABELS: Final = ("vip", "late", "fraud", "test", "escalated")
PEOPLE: Final = ("alice", "bob", "carol")


class Words:
    """Sentences to choose from."""

    def __init__(self, seed: int) -> None:
        random = Random(f"words {seed}")
        words = ["".join(random.choices(_SYLLABLES, k=random.randint(2, 4))) for _ in range(_VOCABULARY)]
        weights = list(accumulate(1 / (rank + 1) for rank in range(_VOCABULARY)))
        self._sentences = [self._sentence(random, words, weights) for _ in range(_SENTENCES)]

    def said(self, random: Random, about: str) -> str:
        """Three sentences; `about` is what nobody else says."""
        first, second, third = random.choices(self._sentences, k=3)
        return f"{first} {second} {about}. {third}"

    @staticmethod
    def _sentence(random: Random, words: list[str], weights: list[float]) -> str:
        chosen = random.choices(words, cum_weights=weights, k=random.randint(6, 20))
        known = next((word for word in KNOWN if random.random() < 0.5), "")
        if known and random.random() < 0.2:
            chosen[random.randrange(len(chosen))] = known
        return " ".join(chosen).capitalize() + "."
