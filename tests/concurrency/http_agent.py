"""One process of an agent of the example, dying at a write boundary."""

from __future__ import annotations

import sys
from typing import Never

from checkpoints.testing import Fault, fault_at
from examples.peers_over_http.__main__ import main


def live(boundary: int, arguments: list[str]) -> Never:
    """Be the agent; with `boundary` 0 it does not die."""
    with fault_at(boundary, Fault.KILL):
        sys.exit(main(arguments))
