"""Generator of the examples on the page of the HTTP API: `make api-examples` runs it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

from tests.support.launched_process import ROOT

FILE: Final = ROOT / "harness_site" / "api" / "reference_examples.json"


def write_examples(examples: dict[str, Any], target: Path = FILE) -> None:
    target.write_text(f"{json.dumps(examples, indent=1, ensure_ascii=False)}\n")


def main() -> None:
    """Record the examples on a new database, and write them."""
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "harness_site.settings")
    django.setup()
    from django.db import connection
    from django.test.utils import setup_test_environment

    from tests.support.api_example_story import record_examples

    setup_test_environment()
    name = connection.creation.create_test_db(verbosity=0)
    try:
        write_examples(record_examples())
    finally:
        connection.creation.destroy_test_db(name, verbosity=0)


if __name__ == "__main__":
    main()
