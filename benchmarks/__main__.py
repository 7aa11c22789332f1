"""`python -m benchmarks [--quick]`: set up the environments, measure, and write `docs/benchmarks.md`."""

from __future__ import annotations

import os
import sys

from benchmarks import virtual_environments


def main() -> None:
    python = virtual_environments.set_up_python_with_current_packages_or_exit()
    older, why_not = virtual_environments.set_up_python_with_older_packages_or_reason()
    os.environ["BENCHMARKS_OLDER_PYTHON"] = str(older or "")
    os.environ["BENCHMARKS_OLDER_MISSING"] = why_not
    os.chdir(virtual_environments.ROOT)
    os.execv(python, [str(python), "-m", "benchmarks.measure_and_write_page", *sys.argv[1:]])  # noqa: S606 - no shell is meant


if __name__ == "__main__":
    main()
