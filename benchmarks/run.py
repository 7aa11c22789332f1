"""One run: make the databases, measure, write the page. Started by `python -m benchmarks`."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from benchmarks import databases as places
from benchmarks import django_setup, environment, plan

PAGE = environment.ROOT / "docs" / "benchmarks.md"


def main() -> None:
    options = _options()
    began = time.monotonic()

    def say(what: str) -> None:
        print(f"{time.monotonic() - began:4.0f} s  {what}", flush=True)

    with places.throw_away() as databases:
        django_setup.configure(databases.urls(django_setup.NAMES))
        from benchmarks import measuring, report  # models can be imported from here on

        page = report.page(measuring.measure(databases, plan.QUICK if options.quick else plan.FULL, say))
    output: Path | None = options.output or (None if options.quick else PAGE)
    if output is None:
        print(page)
    else:
        output.parent.mkdir(exist_ok=True)
        output.write_text(page)
    say("done")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure, and write docs/benchmarks.md.")
    parser.add_argument("--quick", action="store_true", help="fewer turns and rounds; prints the page")
    parser.add_argument("--output", type=Path, help="where the page goes instead")
    return parser.parse_args()


if __name__ == "__main__":
    main()
