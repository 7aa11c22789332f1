"""Tests with seals, signed decisions and a witness: some modules always, or with HARNESS_TEST_SEALED=1 all there are.

The settings are environment variables, so that the child processes of a test have them too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from checkpoints.seals.decision_keys import get_decision_keys
from checkpoints.seals.seal_keys import get_seal_keys
from checkpoints.seals.witness import get_witness
from checkpoints.seals.witness_file import FileWitness

SEALED = os.environ.get("HARNESS_TEST_SEALED") == "1"
SEAL_KEY, SIGNING_KEY = "5e" * 32, "51" * 32

#: Modules that always run so: the ways of a decision and of a resume, and pages of a session.
ALWAYS_SEALED = (
    "tests/integration/review/test_record_decision_from_form.py",
    "tests/integration/checkpoints/resume/test_gate.py",
    "tests/integration/sessions/test_version_list.py",
)
#: What never runs so: tests of these settings themselves, of a database without them, and of costs without them.
NEVER_SEALED = (
    "tests/adapters/test_decided_in_browser.py",
    "tests/adapters/test_statement_counts.py",
    "tests/docs",
    "tests/integration/checkpoints/integrity",
    "tests/integration/hostile/test_altered_data.py",
    "tests/integration/installation",
    "tests/integration/packaging",
    "tests/integration/review/test_signed_and_sealed.py",
    "tests/mutations",
    "tests/property/test_altered_histories.py",
    "tests/unit",
)


def is_sealed(path: str) -> bool:
    """Return whether the tests of a module run with seals, by its path from the root of the project."""
    return path.startswith(ALWAYS_SEALED) or (SEALED and not path.startswith(NEVER_SEALED))


@contextmanager
def set_sealed_environment(folder: Path) -> Iterator[None]:
    """Configure a key of seals, a key that signs decisions, and an empty witness in `folder`."""
    FileWitness.create_storage(folder / "witness")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS_SEAL_KEY", SEAL_KEY)
        patch.setenv("HARNESS_DECISION_SIGNING_KEY", SIGNING_KEY)
        patch.setenv("HARNESS_WITNESS", str(folder / "witness"))
        _clear_settings_caches()
        yield
    _clear_settings_caches()


def empty_witness() -> None:
    """Remove all that was noted in the witness."""
    os.truncate(os.environ["HARNESS_WITNESS"], 0)
    get_witness.cache_clear()


def _clear_settings_caches() -> None:
    for read in (get_seal_keys, get_decision_keys, get_witness):
        read.cache_clear()
