"""One run: create the databases, measure, write the page. Started by `python -m benchmarks`."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from benchmarks import benchmark_databases as places
from benchmarks import django_setup, full_and_quick_run_sizes, virtual_environments

PAGE = virtual_environments.ROOT / "docs" / "benchmarks.md"


def main() -> None:
    options = _parse_options()
    started_at = time.monotonic()

    def print_progress(message: str) -> None:
        print(f"{time.monotonic() - started_at:4.0f} s  {message}", flush=True)

    with places.run_temporary_postgresql_and_sqlite_folder() as databases:
        django_setup.configure_django(databases.build_urls_by_alias(django_setup.NAMES))
        from benchmarks import measure_all, report  # models can be imported only now

        extent = full_and_quick_run_sizes.QUICK if options.quick else full_and_quick_run_sizes.FULL
        page = report.format_page(measure_all.measure_all(databases, extent, print_progress))
    output: Path | None = options.output or (None if options.quick else PAGE)
    if output is None:
        print(page)
    else:
        output.parent.mkdir(exist_ok=True)
        output.write_text(page)
    print_progress("done")


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure, and write docs/benchmarks.md.")
    parser.add_argument("--quick", action="store_true", help="fewer turns and rounds; prints the page")
    parser.add_argument("--output", type=Path, help="where the page goes instead")
    return parser.parse_args()


if __name__ == "__main__":
    main()
