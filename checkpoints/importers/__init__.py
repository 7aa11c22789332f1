"""Common part of all imports of foreign transcripts: read lines, write sessions, report what was read."""

from checkpoints.importers.import_errors import ImportRefused
from checkpoints.importers.import_report import DamagedPlace, ImportProgress, ImportReport, Progress

__all__ = ["DamagedPlace", "ImportProgress", "ImportRefused", "ImportReport", "Progress"]
