"""Sentences for people that are stored in one language and displayed in that of each reader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from django.utils import translation
from django.utils.functional import Promise


@dataclass(frozen=True, slots=True)
class StoredSentence:
    """English sentence with placeholders such as `%(host)s`, and their values. `str` translates it.

    The sentence has to be marked for translation where it is written. Without values it has no placeholders.
    """

    text: str
    values: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def build(cls, sentence: str | Promise | StoredSentence, **values: object) -> StoredSentence:
        """Build a sentence from one that is marked for translation, whose placeholders these values fill."""
        if isinstance(sentence, StoredSentence):
            return sentence
        with translation.override(None):  # the text of a lazy translation without any is the English one
            return cls(str(sentence), {name: str(value) for name, value in values.items()})

    @property
    def english(self) -> str:
        """The English sentence with its values, for logs."""
        return self.text % self.values if self.values else self.text

    def __str__(self) -> str:
        text = translation.gettext(self.text) if self.text else ""
        return text % self.values if self.values else text
