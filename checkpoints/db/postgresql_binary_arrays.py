"""Short arrays in the binary format of PostgreSQL, encoded here: the driver takes some times as long, and sends texts.

The driver takes them as they are on a connection on which `register_binary_array_dumper` was called.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final
from weakref import WeakSet

from django.db.backends.base.base import BaseDatabaseWrapper


class BinaryArray(bytes):
    """Array with one dimension in the binary format."""

    __slots__ = ()


#: Number of the type, and encoding of an element, by the name of the type.
_ELEMENTS: Final[dict[str, tuple[int, Callable[[Any], bytes]]]] = {
    "bytea": (17, lambda value: memoryview(value).tobytes()),
    "text": (25, str.encode),
    "boolean": (16, struct.Struct("!?").pack),
    "int": (23, struct.Struct("!i").pack),
    "bigint": (20, struct.Struct("!q").pack),
}
#: Number of dimensions, whether there is a null, type of the elements, and their number and first index.
_HEADER: Final = struct.Struct("!iiIii")
_LENGTH: Final = struct.Struct("!i")
_NULL: Final = b"\xff\xff\xff\xff"
#: Connections of the driver on which the dumper is registered.
_registered: WeakSet[Any] = WeakSet()


def encode_array_if_possible(type_: str, values: Sequence[Any]) -> BinaryArray | Sequence[Any]:
    """Encode an array.

    Args:
        type_: Name of the type of its elements.
        values: Its elements, at least one; None is null.

    Returns:
        The array. The values themselves if one is not of the type: then the driver or the server says what is wrong.
    """
    type_number, encode = _ELEMENTS[type_]
    parts = [_HEADER.pack(1, None in values, type_number, len(values), 1)]
    try:
        for value in values:
            if value is None:
                parts.append(_NULL)
            else:
                encoded = encode(value)
                parts += _LENGTH.pack(len(encoded)), encoded
    except (struct.error, TypeError, ValueError):
        return values
    return BinaryArray(b"".join(parts))


def register_binary_array_dumper(connection: BaseDatabaseWrapper) -> None:
    """Let the driver send each `BinaryArray` on a PostgreSQL connection, which is opened if it is not."""
    connection.ensure_connection()
    opened = connection.connection
    if opened not in _registered:
        opened.adapters.register_dumper(BinaryArray, _build_dumper_class(connection.Database))  # type: ignore[attr-defined]
        _registered.add(opened)


@cache
def _build_dumper_class(driver: Any) -> Any:
    """Build the dumper. `driver` is the module of the driver, which is not installed without PostgreSQL."""

    class BinaryArrayDumper(driver.adapt.Dumper):  # type: ignore[misc]
        """Dumper of bytes as they are; the statement says what type they have."""

        format = driver.pq.Format.BINARY

        def dump(self, obj: BinaryArray) -> BinaryArray:
            return obj

    return BinaryArrayDumper
