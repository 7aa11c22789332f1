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
_MOST: Final = 10_000
#: Clock in seconds.
read_clock = time.monotonic
_lock = Lock()
#: Requests left and the time of the last one, by token.
_buckets: OrderedDict[int, tuple[float, float]] = OrderedDict()


@dataclass(frozen=True)
class Allowance:
    """Requests that a token may make now: at most `most` of them in `seconds`, `left` at once.

    After `until_full` seconds without a request there are `most` again.
    """

    most: int
    seconds: int
    left: int
    until_full: int

    def get_headers(self) -> dict[str, str]:
        """Return the header fields of the IETF's draft `ratelimit-headers`."""
        return {
            "RateLimit-Policy": f'"token";q={self.most};w={self.seconds}',
            "RateLimit": f'"token";r={self.left};t={self.until_full}',
        }


def take_request(token: int) -> Allowance:
    """Count a request of a token. Returns what is left. Raises `RateLimited`."""
    per_second = settings.API_REQUESTS_PER_MINUTE / 60
    most = max(1.0, settings.API_REQUESTS_PER_MINUTE / 6)
    now = read_clock()
    with _lock:
        left, since = _buckets.pop(token, (most, now))
        left = min(most, left + (now - since) * per_second)
        _buckets[token] = (max(left - 1, 0) if left >= 1 else left, now)
        while len(_buckets) > _MOST:
            _buckets.popitem(last=False)
    if left < 1:
        raise RateLimited(round((1 - left) / per_second, 3))
    left -= 1
    return Allowance(int(most), math.ceil(most / per_second), int(left), math.ceil((most - left) / per_second))


def forget_requests() -> None:
    """Forget what all tokens have used."""
    with _lock:
        _buckets.clear()
