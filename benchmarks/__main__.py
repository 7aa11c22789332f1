"""`python -m benchmarks [--quick]`: set up the environments, measure, and write `docs/benchmarks.md`."""

from __future__ import annotations

import os
import sys

from benchmarks import environment


def main() -> None:
    python = environment.get_current_python()
    older, why_not = environment.find_older_python()
    os.environ["BENCHMARKS_OLDER_PYTHON"] = str(older or "")
    os.environ["BENCHMARKS_OLDER_MISSING"] = why_not
    os.chdir(environment.ROOT)
    os.execv(python, [str(python), "-m", "benchmarks.benchmark_run", *sys.argv[1:]])  # noqa: S606 - no shell is meant


if __name__ == "__main__":
    main()
