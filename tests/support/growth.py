"""How the work of a function grows with its text, measured in processor time of this thread.

The bounds are wide: at four times the size linear work takes about four times as long and quadratic work sixteen times,
and four megabytes of anything linear are read in seconds where quadratic work would take hours.
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
    """Run `work` on texts of `make`, each four times as long as the one before, up to `largest` characters.

    Stops at the first size at which the work has grown as no linear work does, so that a quadratic function fails
    within seconds. Short runs are not compared: they measure the clock.
    """
    size, before = largest // 64, 0.0
    while size <= largest:
        text = make(size)
        taken = processor_seconds(lambda text=text: work(text))  # type: ignore[misc]
        bound = max(1.0, 9 * before)
        assert taken <= bound or taken <= seconds * size / largest, (
            f"{size} characters took {taken:.2f} s, a quarter of them {before:.2f} s."
        )
        size, before = 4 * size, taken
