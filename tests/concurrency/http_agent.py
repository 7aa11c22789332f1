"""Process of an example agent that dies at a write boundary."""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import Never
from unittest.mock import patch

from checkpoints.testing import Fault, fault_at
from examples.peers_over_http.__main__ import main

#: What a dead process was about to tell is told by the next one after this, and not only after half a minute.
CLAIM = timedelta(seconds=2)


def live(boundary: int, arguments: list[str]) -> Never:
    """Run the agent, and die at a write boundary; with `boundary` 0 it does not die."""
    with (
        patch("checkpoints.peers.agent_notice_outbox.CLAIM_DURATION", CLAIM),
        fault_at(boundary, Fault.KILL),
    ):
        sys.exit(main(arguments))
