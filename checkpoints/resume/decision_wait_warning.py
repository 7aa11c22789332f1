"""Line in the log of an agent that waits for a person."""

from __future__ import annotations

import logging
from collections.abc import Iterable

logger = logging.getLogger(__name__)


def log_wait_for_decisions(session_id: str, calls: Iterable[tuple[str, str]]) -> None:
    """Write a warning that names the session and the calls, given as tool name and call id: otherwise a program that
    waits looks like one that hangs."""
    names = ", ".join(f"{tool} ({call_id})" for tool, call_id in calls)
    logger.warning("Session %r waits until a person decides about: %s.", session_id, names)
