"""Vendored files are unchanged and listed with their origin."""

import hashlib
import json
from pathlib import Path

import pytest

STATIC = Path(__file__).parents[3] / "static"
ENTRIES = json.loads((STATIC / "vendor" / "VENDOR.json").read_text())


@pytest.mark.parametrize("entry", ENTRIES, ids=[entry["file"] for entry in ENTRIES])
def test_vendored_file_is_unchanged(entry: dict[str, str]) -> None:
    assert hashlib.sha256((STATIC / entry["file"]).read_bytes()).hexdigest() == entry["sha256"]
    assert (STATIC / entry["licence_file"]).read_text().strip()
    assert set(entry) == {"file", "package", "version", "licence", "licence_file", "taken_from", "changes", "sha256"}


def test_every_vendored_file_is_listed() -> None:
    named = {entry["file"] for entry in ENTRIES} | {entry["licence_file"] for entry in ENTRIES} | {"vendor/VENDOR.json"}
    found = {str(path.relative_to(STATIC)) for path in (STATIC / "vendor").iterdir()}
    assert found - named == set()
