"""Columns whose short values say much the same in each row: packed on the way to the database, and unpacked from it.

Statements that are written by hand convert their values with the field too. What cannot be unpacked is read as it is
stored, and so is what is no bytes, for SQLite stores any type in any column: a seal, or what parses the value, says
that it was altered.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from django.db import models

from checkpoints.formats import plain_and_delta_compression

if TYPE_CHECKING:
    _BinaryField = models.BinaryField[bytes, bytes]
    _TextField = models.TextField[str, str]
    _CharField = models.CharField[str, str]
else:
    _BinaryField, _TextField, _CharField = models.BinaryField, models.TextField, models.CharField


_BYTES = (bytes, bytearray, memoryview)


class PackedBinaryField(_BinaryField):
    """Binary column with packed bytes."""

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        return None if value is None else plain_and_delta_compression.compress_with_preset_dictionary(bytes(value))

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        return _decompress_if_packed(bytes(value)) if isinstance(value, _BYTES) else value


class PackedTextField(_TextField):
    """Binary column with a packed text."""

    def get_internal_type(self) -> str:
        return "BinaryField"

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        if value is None:
            return None
        return plain_and_delta_compression.compress_with_preset_dictionary(value.encode("utf-8", "surrogatepass"))

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        return (
            _decompress_if_packed(bytes(value)).decode("utf-8", "surrogateescape")
            if isinstance(value, _BYTES)
            else value
        )


class CompressibleTextField(_TextField):
    """Text column in which SQLite may have compressed texts, for it compresses nothing itself.

    Whoever writes a row decides that, by `compression.TextToCompress`. SQL reads the text by
    `db.decompressed_text_sql`.
    """

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        return decompress_text_if_compressed(value)


def decompress_text_if_compressed(value: Any) -> Any:
    """Return the text of a stored value; of bytes that are no compressed text, some other text."""
    if not isinstance(value, _BYTES):
        return value
    try:
        return plain_and_delta_compression.decompress_text(bytes(value))
    except ValueError:
        return bytes(value).decode("utf-8", "replace")


class PackedDigestField(_CharField):
    """Binary column with the bytes of hexadecimal digits."""

    def get_internal_type(self) -> str:
        return "BinaryField"

    def to_python(self, value: Any) -> Any:
        if value is not None and bytes.fromhex(value).hex() != value:
            raise ValueError(f"{value!r} is no digest.")
        return value

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        return None if value is None else bytes.fromhex(value)

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        return bytes(value).hex() if isinstance(value, _BYTES) else value


PACKED_FIELDS = (PackedBinaryField, PackedTextField, PackedDigestField)


def _decompress_if_packed(stored: bytes) -> bytes:
    with suppress(ValueError):
        return plain_and_delta_compression.decompress_with_preset_dictionary(stored)
    return stored
