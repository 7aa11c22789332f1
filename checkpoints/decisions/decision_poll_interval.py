"""Poll interval of an agent that waits for the decision of a person."""

from __future__ import annotations

from typing import Final

_SHORTEST_SECONDS: Final = 0.25
_LONGEST_SECONDS: Final = 1.0
#: Seconds of waiting after which the interval is the longest one.
_GROWTH_SECONDS: Final = 120.0


def compute_decision_poll_interval(waited: float) -> float:
    """Return the seconds until the next check for a decision.

    After a decision that is made at once the agent continues at once. After minutes, an agent may notice a decision up
    to a second later, and costs the database a quarter: people take hours to decide, and many agents may wait.

    Args:
        waited: Seconds since the call that the agent waits for began to wait.
    """
    return min(_LONGEST_SECONDS, max(_SHORTEST_SECONDS, _LONGEST_SECONDS * waited / _GROWTH_SECONDS))
