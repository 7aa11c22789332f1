"""Shared parts of the framework examples: an agent that is killed inside a tool, and the decision of a person."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from checkpoints import SyncCheckpointer

#: Moments at which the process of an agent kills itself.
BEFORE_EFFECT, INSIDE_EFFECT, AFTER_EFFECT = "before", "inside", "after"


def make_kill_at_moment_function(moment: str | None) -> Callable[[str], None]:
    """Return a function that kills this process, as a power cut would, when it is called with `moment`."""

    def die(now: str) -> None:
        if now == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    return die


def run_agent_in_process_that_is_killed(example: str, database: str, effects: Path) -> None:
    """Run the agent of an example in a process that is killed after its refund."""
    child = subprocess.run([sys.executable, "-m", example, database, str(effects)], check=False)
    print(f"The agent was killed (exit status {child.returncode}). Refunds so far: {count_refunds(effects)}.")


def confirm_refund(checkpointer: SyncCheckpointer, session_id: str) -> None:
    """Decide as a person would in the browser, who has looked at the account."""
    (call,) = checkpointer.pending_tool_calls(session_id)
    checkpointer.confirm_landed(
        session_id,
        call["call_id"],
        "refunded 40 for order 17",
        actor="alice",
        reason="The bank statement has the payment.",
        revision=call["revision"],
    )


def count_refunds(effects: Path) -> int:
    """Count the refunds, which are the lines of a file."""
    return len(effects.read_text().splitlines()) if effects.exists() else 0


def play_story_or_run_agent(ask: Callable[[str, Path], object], play: Callable[[str, Path], None]) -> None:
    """Play a story on a new database; with a database and a file as arguments, run only the agent that is killed."""
    if len(sys.argv) > 1:
        ask(sys.argv[1], Path(sys.argv[2]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            play(f"sqlite:///{temporary}/agent.db", Path(temporary) / "effects.log")
