"""Imports of foreign transcripts: detect their format, read them, write sessions, report what was read."""

from checkpoints import configure_django_on_import as configure_django_on_import
from checkpoints.importers.import_errors import FormatRefused, ImportRefused, NothingToImport
from checkpoints.importers.import_report import DamagedPlace, ImportProgress, ImportReport, Progress, RefusedFile
from checkpoints.importers.price_table import PriceTable, load_price_table
from checkpoints.importers.transcript_import import import_transcripts

__all__ = [
    "DamagedPlace",
    "FormatRefused",
    "ImportProgress",
    "ImportRefused",
    "ImportReport",
    "NothingToImport",
    "PriceTable",
    "Progress",
    "RefusedFile",
    "import_transcripts",
    "load_price_table",
]
