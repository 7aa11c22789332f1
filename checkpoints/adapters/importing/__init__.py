"""What every import of foreign transcripts shares: reading lines, writing sessions, reporting what was read."""

from checkpoints.adapters.importing.refusal import ImportRefused
from checkpoints.adapters.importing.report import Damaged, ImportProgress, ImportReport, Progress

__all__ = ["Damaged", "ImportProgress", "ImportRefused", "ImportReport", "Progress"]
