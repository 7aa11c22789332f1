"""Bounds on the growth of a function's work with its input, measured in processor time of this thread.

The bounds are wide: at four times the size, linear work takes about four times as long and quadratic work sixteen
times, and four megabytes take seconds in linear work and hours in quadratic work.
"""

from collections.abc import Callable
from time import thread_time

MEGABYTE = 1_000_000


def processor_seconds(work: Callable[[], object]) -> float:
    started = thread_time()
    work()
    return thread_time() - started


def assert_linear(
    work: Callable[[str], object], make: Callable[[int], str], *, largest: int = 4 * MEGABYTE, seconds: float = 20.0
) -> None:
    """Run `work` on texts of `make`, each four times as long as the previous one, up to `largest` characters.

    Stops at the first size with more than linear growth, so that a quadratic function fails within seconds. Short runs
    are not compared, because they measure the clock.
    """
    size, previous_seconds = largest // 64, 0.0
    while size <= largest:
        text = make(size)
        measured_seconds = processor_seconds(lambda text=text: work(text))  # type: ignore[misc]
        bound = max(1.0, 9 * previous_seconds)
        assert measured_seconds <= bound or measured_seconds <= seconds * size / largest, (
            f"{size} characters took {measured_seconds:.2f} s, a quarter of them {previous_seconds:.2f} s."
        )
        size, previous_seconds = 4 * size, measured_seconds
