"""A transcript to write."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.checkpoints.importers.transcript_files import SESSION, Scribe


@pytest.fixture
def scribe(tmp_path: Path) -> Scribe:
    return Scribe(tmp_path / f"{SESSION}.jsonl")
