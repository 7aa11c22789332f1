"""Span of any source, as far as conversations are built from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from checkpoints.importers.transcript_reader_interface_and_builder import Body


@dataclass
class Span:
    """Span of any source. `kind` is `model`, `tool` or empty; `rest` is what is kept of it beside its messages."""

    id: str
    parent: str
    trace: str
    name: str
    kind: str = ""
    start: datetime | None = None
    end: datetime | None = None
    inputs: Any = None
    outputs: Any = None
    system: Any = None
    model: str = ""
    agent: str = ""
    tokens: Mapping[str, object] = field(default_factory=dict)
    cost: Decimal | None = None
    call_id: str = ""
    tool: str = ""
    failed: bool = False
    #: Whether its call has been found among the messages.
    matched: bool = False
    rest: Body = field(default_factory=dict)
