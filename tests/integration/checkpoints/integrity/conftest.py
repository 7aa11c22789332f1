from pathlib import Path
from typing import Any

import pytest

from checkpoints.seals.witness_file import FileWitness

KEY, OTHER_KEY = "5e" * 32, "a1" * 32


@pytest.fixture(autouse=True)
def sealing_is_on(settings: Any) -> None:
    settings.HARNESS_SEAL_KEY = KEY
    settings.HARNESS_SEAL_REQUIRED = True


@pytest.fixture
def witness(tmp_path: Path, settings: Any) -> Path:
    path = tmp_path / "witness"
    FileWitness.create_storage(path)
    settings.HARNESS_WITNESS = str(path)
    return path
