"""Fixture that writes a transcript."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.checkpoints.importers.transcript_writer import SESSION, TranscriptWriter


@pytest.fixture
def transcript_writer(tmp_path: Path) -> TranscriptWriter:
    return TranscriptWriter(tmp_path / f"{SESSION}.jsonl")
