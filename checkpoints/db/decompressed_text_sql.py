"""Texts of columns that may be compressed on SQLite, for SQL that searches, cuts or returns them."""

from __future__ import annotations

from typing import Any, Final

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Func, IntegerField, TextField

from checkpoints.models.packed_fields import decompress_text_if_compressed

_FUNCTION: Final = "harness_text"


def register_sqlite_decompression_function(connection: BaseDatabaseWrapper, **_: Any) -> None:
    """Give a new connection to SQLite the function that `build_decompressed_text_sql` needs.

    Receiver of `connection_created`.
    """
    if connection.vendor == "sqlite":
        connection.connection.create_function(_FUNCTION, 1, decompress_text_if_compressed, deterministic=True)


def build_decompressed_text_sql(vendor: str, column: str) -> str:
    """Build SQL of the text of a column.

    Args:
        vendor: Vendor of the connection.
        column: SQL of a `CompressibleTextField`.
    """
    if vendor != "sqlite":
        return column
    return f"CASE typeof({column}) WHEN 'blob' THEN {_FUNCTION}({column}) ELSE {column} END"


class DecompressedText(Func):
    """Text of a `CompressibleTextField`, for conditions and functions of queries."""

    template, arity, output_field = "%(expressions)s", 1, TextField()

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        sql, params = compiler.compile(self.source_expressions[0])
        return build_decompressed_text_sql("sqlite", sql), [*params] * build_decompressed_text_sql(
            "sqlite", "%s"
        ).count("%s")


class StoredSize(Func):
    """Size of a text as it is stored, for conditions that leave out long texts without reading them.

    In bytes; on SQLite in characters, but of a text that is compressed there in bytes.
    """

    function, arity, output_field = "LENGTH", 1, IntegerField()

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(compiler, connection, function="OCTET_LENGTH", **context)
