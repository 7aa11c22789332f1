"""Generated sentences, the same for the same seed, with common and rare words."""

from __future__ import annotations

from itertools import accumulate
from random import Random
from typing import Final

_SYLLABLES: Final = tuple(a + b for a, b in zip("bcdfghjklmnprstvwxyz", "aeiou" * 4, strict=True))
#: Words of every seed: each is about half as common as the one before it.
KNOWN: Final = ("refund", "customer", "invoice", "lamp", "warehouse", "退款", "возврат", "überweisung")
_VOCABULARY: Final = 4_000
_SENTENCES: Final = 4_000
TOOLS: Final = ("refund_card", "send_mail", "look_up_order", "create_label", "charge_card", "close_ticket")
AGENTS: Final = tuple(f"desk-{number}" for number in range(1, 25))
LABELS: Final = ("vip", "late", "fraud", "test", "escalated")
PEOPLE: Final = ("alice", "bob", "carol")


class SentenceGenerator:
    """Generator of texts from a fixed set of sentences."""

    def __init__(self, seed: int) -> None:
        random = Random(f"words {seed}")
        words = ["".join(random.choices(_SYLLABLES, k=random.randint(2, 4))) for _ in range(_VOCABULARY)]
        weights = list(accumulate(1 / (rank + 1) for rank in range(_VOCABULARY)))
        self._sentences = [self._generate_sentence(random, words, weights) for _ in range(_SENTENCES)]

    def generate_three_sentence_text(self, random: Random, about: str) -> str:
        """Return a text of three sentences; `about` is a word that occurs in no other session."""
        first, second, third = random.choices(self._sentences, k=3)
        return f"{first} {second} {about}. {third}"

    @staticmethod
    def _generate_sentence(random: Random, words: list[str], weights: list[float]) -> str:
        sentence_words = random.choices(words, cum_weights=weights, k=random.randint(6, 20))
        known_word = next((word for word in KNOWN if random.random() < 0.5), "")
        if known_word and random.random() < 0.2:
            sentence_words[random.randrange(len(sentence_words))] = known_word
        return " ".join(sentence_words).capitalize() + "."
