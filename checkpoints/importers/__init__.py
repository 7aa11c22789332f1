"""Imports of foreign transcripts: detect their format, read them, write sessions, report what was read."""

from checkpoints import configure_django_on_import as configure_django_on_import
from checkpoints.importers.import_errors import FormatRefused, ImportRefused, NothingToImport
from checkpoints.importers.import_from_path_or_memory import import_transcripts
from checkpoints.importers.import_report import DamagedPlace, ImportProgress, ImportReport, Progress, RefusedFile
from checkpoints.importers.price_table import PriceTable, load_price_table

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
