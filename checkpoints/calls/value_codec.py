"""Codec of a tool's typed value, which is stored beside the text for the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ValueCodec:
    """Encoder of a tool's values for the log of calls.

    Attributes:
        encode: Function that returns the name of a format, of at most 40 characters, and the bytes of a value.
        decode: Function that returns the value of such a pair.
        to_text: Function that returns the text of a value for the model. None: text as it is, anything else as JSON.
    """

    encode: Callable[[Any], tuple[str, bytes]]
    decode: Callable[[tuple[str, bytes]], Any]
    to_text: Callable[[Any], str] | None = None
