"""Number of requests of a token: a bucket of this process, refilled steadily."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import Final

from django.conf import settings

from checkpoints.exceptions import RateLimited

#: Number of tokens whose buckets are kept.
_MAX_BUCKETS: Final = 10_000
#: Clock in seconds.
read_clock = time.monotonic
_lock = Lock()
#: Requests left and the time of the last one, by token.
_buckets: OrderedDict[int, tuple[float, float]] = OrderedDict()


@dataclass(frozen=True)
class Allowance:
    """Requests that a token may make now: at most `burst_limit` of them in `seconds`, `remaining` at once.

    After `until_full` seconds without a request there are `burst_limit` again.
    """

    burst_limit: int
    seconds: int
    remaining: int
    until_full: int

    def get_headers(self) -> dict[str, str]:
        """Return the header fields of the IETF's draft `ratelimit-headers`."""
        return {
            "RateLimit-Policy": f'"token";q={self.burst_limit};w={self.seconds}',
            "RateLimit": f'"token";r={self.remaining};t={self.until_full}',
        }


def count_request_or_raise_rate_limited(token: int) -> Allowance:
    """Count a request of a token. Returns what is left. Raises `RateLimited`."""
    per_second, burst_limit = _get_requests_per_second_and_burst()
    with _lock:
        remaining, now = _refill_bucket(token)
        _buckets[token] = (max(remaining - 1, 0) if remaining >= 1 else remaining, now)
        while len(_buckets) > _MAX_BUCKETS:
            _buckets.popitem(last=False)
    if remaining < 1:
        raise RateLimited(round((1 - remaining) / per_second, 3))
    remaining -= 1
    return Allowance(
        int(burst_limit),
        math.ceil(burst_limit / per_second),
        int(remaining),
        math.ceil((burst_limit - remaining) / per_second),
    )


def has_request_left_without_counting(token: int) -> bool:
    """Return True if a token may make a request now. It is not counted."""
    with _lock:
        remaining, _ = _refill_bucket(token)
    return remaining >= 1


def _get_requests_per_second_and_burst() -> tuple[float, float]:
    """Return the requests per second, and those at once."""
    return settings.API_REQUESTS_PER_MINUTE / 60, max(1.0, settings.API_REQUESTS_PER_MINUTE / 6)


def _refill_bucket(token: int) -> tuple[float, float]:
    """Refill the bucket of a token. Returns the requests in it, and the time."""
    per_second, burst_limit = _get_requests_per_second_and_burst()
    now = read_clock()
    remaining, last_refill = _buckets.pop(token, (burst_limit, now))
    bucket = _buckets[token] = min(burst_limit, remaining + (now - last_refill) * per_second), now
    return bucket


def clear_request_counts() -> None:
    """Forget what all tokens have used."""
    with _lock:
        _buckets.clear()
