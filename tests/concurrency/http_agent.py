"""One process of an agent of the example, dying at a write boundary: `python -m tests.concurrency.http_agent 4 …`."""

from __future__ import annotations

import sys

from checkpoints.testing import Fault, fault_at
from examples.peers_over_http.__main__ import main

if __name__ == "__main__":
    with fault_at(int(sys.argv[1]), Fault.KILL):
        sys.exit(main(sys.argv[2:]))
