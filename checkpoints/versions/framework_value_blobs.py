"""Opaque values of a session, stored once by their content.

A value is the type and the bytes that a framework's serializer gave, or a list of such values. Each element of a list
is a blob of its own, and the list is a tree of nodes: every full group of digests becomes a node, and every full group
of nodes the next level. A list that grows at its end shares all full groups with its former self, so that what is
stored for an append does not grow with the length of the list. An element that resembles another value is stored as a
patch of that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from checkpoints.db.execute_cached_row_sql import DO_NOTHING, insert_rows_of_field_values
from checkpoints.db.hot_statements import NewRows
from checkpoints.db.sql_names_and_values import quote_column, quote_columns, quote_table
from checkpoints.exceptions import CheckpointCorrupted
from checkpoints.formats import digests, plain_and_delta_compression
from checkpoints.formats.canonical_json import parse_json_or_return_text
from checkpoints.formats.msgpack_to_json import convert_msgpack_to_json_value
from checkpoints.models import Blob, FrameworkWrite, Session
from checkpoints.versions import opaque_bytes_as_message_differences
from checkpoints.versions.opaque_bytes_as_message_differences import ContentColumns, StoredMessage

#: Type and bytes of a value, as a serializer gave them.
Encoded = tuple[str, bytes]
#: Value of a channel: one encoded value, or a list of them.
EncodedValue = Encoded | list[Encoded]


@dataclass(frozen=True)
class PatchedValue:
    """Value that is stored as the difference from another one of the same type.

    Attributes:
        base: The other value.
        patch: Content of the blob that stands for the value: the digest of `base`, and the difference.
    """

    base: Encoded
    patch: bytes


#: Element of a list to store.
NewElement = Encoded | PatchedValue


class StoredList(list[Encoded]):
    """List as it was loaded, with the digests of its elements."""

    def __init__(self, elements: Iterable[Encoded], element_digests: Sequence[str]) -> None:
        super().__init__(elements)
        self.digests = element_digests


@dataclass(frozen=True)
class ListNodes:
    """Nodes of a list that the next element may change.

    Attributes:
        open_groups: For each level, from the elements up, the entries that do not fill a node yet.
        digest: Digest of the list.
    """

    open_groups: tuple[bytes, ...]
    digest: str

    def build_extended_nodes_and_blobs(self, element_digests: Iterable[str]) -> tuple[ListNodes, dict[str, Encoded]]:
        """Add elements. Returns the nodes then, and the blobs of the list and of the nodes that were filled."""
        groups, blobs = list(self.open_groups), dict[str, Encoded]()
        for element_digest in element_digests:
            entry, level = _encode_child_level_and_digest(element_digest), 0
            while True:
                if level == len(groups):
                    groups.append(b"")
                groups[level] += entry
                if len(groups[level]) < _GROUP_SIZE * _ENTRY_SIZE:
                    break
                digest, level = _add_blob(blobs, LIST_TYPE, groups[level]), level + 1
                groups[level - 1], entry = b"", _encode_child_level_and_digest(digest, level)
        digest = _add_blob(blobs, LIST_TYPE, b"".join(reversed(groups)))
        return ListNodes(tuple(groups), digest), blobs


def build_list_nodes(element_digests: Iterable[str]) -> ListNodes:
    """Build the nodes of a list of stored elements."""
    return EMPTY_LIST_NODES.build_extended_nodes_and_blobs(element_digests)[0]


@dataclass(frozen=True)
class GrownList:
    """List that begins as a stored one, so that only what is new has to be stored.

    Attributes:
        base: Digest of the stored list.
        kept: Nodes of the elements that both lists begin with.
        added: Values after these.
    """

    base: str
    kept: ListNodes
    added: Sequence[NewElement]


#: Value to store.
NewValue = EncodedValue | list[NewElement] | GrownList
#: Type of the nodes of a list. The types of serializers do not begin with a dot.
LIST_TYPE = ".list"
#: Type of the patches that stand for elements of a list.
PATCH_TYPE = ".patch"
_REFERRING_TYPES = frozenset({LIST_TYPE, PATCH_TYPE})
_ENTRY_SIZE = digests.BLOB_DIGEST_SIZE + 1
_GROUP_SIZE = 8
_BLOB_FIELDS = ("digest", *ContentColumns._fields)
#: Nodes of the list without elements.
EMPTY_LIST_NODES = ListNodes((), digests.digest_blob(LIST_TYPE, b""))
#: Up to this number of blobs are sent without asking whether they are stored.
_MAX_UNCHECKED = 8
#: Number of digests in one query, below the limits of both databases.
_QUERY_SIZE = 500


@dataclass
class BlobWriter:
    """Collector of the blobs of one write to a session."""

    blobs: dict[str, Encoded] = field(default_factory=dict)

    def add_value(self, value: NewValue) -> str:
        """Add a value, and return the digest that stands for it."""
        if isinstance(value, tuple):
            return _add_blob(self.blobs, *value)
        kept, elements = (value.kept, value.added) if isinstance(value, GrownList) else (EMPTY_LIST_NODES, value)
        nodes, blobs = kept.build_extended_nodes_and_blobs(map(self._add_element, elements))
        self.blobs.update(blobs)
        return nodes.digest

    def add_value_and_pop_list_root(self, value: NewValue) -> tuple[str, Encoded | None]:
        """Add what a task wrote. Returns its digest, and the root of a list, which is stored with the write."""
        digest = self.add_value(value)
        return digest, self.blobs.pop(digest) if self.blobs[digest][0] == LIST_TYPE else None

    def _add_element(self, element: NewElement) -> str:
        if isinstance(element, PatchedValue):
            _add_blob(self.blobs, *element.base)  # it may have been removed meanwhile
            return _add_blob(self.blobs, PATCH_TYPE, element.patch)
        return _add_blob(self.blobs, *element)

    def insert_missing_blobs(self, using: str, session: Session, messages: Sequence[StoredMessage] = ()) -> None:
        """Store the blobs that the session does not have yet, in the transaction that has locked the session.

        A blob with the text of one of the messages, which the transaction has stored, becomes the difference from that,
        also one that the session has.
        """
        rows = Blob.objects.using(using)
        stored: set[str] = set()
        if len(self.blobs) > _MAX_UNCHECKED:
            for part in _split_into_query_batches(list(self.blobs)):
                stored.update(rows.filter(session=session, digest__in=part).values_list("digest", flat=True))
        new = self.build_blob_rows(messages, stored)
        values = [(session.pk, *row) for row in new.rows]
        insert_rows_of_field_values(using, Blob, ("session", *new.fields), values, on_conflict=new.on_conflict)

    def build_blob_rows(self, messages: Sequence[StoredMessage] = (), stored: Collection[str] = ()) -> NewRows:
        """Build the rows of the blobs, for a statement that inserts them. The rest is as in `insert_missing_blobs`.

        Args:
            messages: Messages that the transaction has stored or that the statement stores.
            stored: Digests of blobs that the session has.
        """
        new, digests = [], list(self.blobs)
        for number, digest in enumerate(digests):
            candidates = opaque_bytes_as_message_differences.list_candidate_base_messages(
                messages, number, len(digests)
            )
            if digest in stored and not candidates:
                continue
            columns = opaque_bytes_as_message_differences.build_content_columns(*self.blobs[digest], candidates)
            if digest not in stored or columns.base_segment is not None:
                new.append((digest, *columns))
        return NewRows(Blob, _BLOB_FIELDS, new, _build_replace_by_difference_sql() if messages else DO_NOTHING)


def _add_blob(blobs: dict[str, Encoded], type_: str, content: bytes) -> str:
    digest = digests.digest_blob(type_, content)
    blobs[digest] = (type_, content)
    return digest


@cache
def _build_replace_by_difference_sql() -> str:
    """SQL that replaces a stored blob by the same one as the difference from a message."""
    target = quote_columns(Blob, ("session", "digest"))
    names = ("content", "compressed", "base_segment", "base_position")
    changes = ", ".join(f"{quote_column(Blob, name)} = EXCLUDED.{quote_column(Blob, name)}" for name in names)
    base = quote_column(Blob, "base_segment")
    return (
        f"ON CONFLICT ({target}) DO UPDATE SET {changes} "
        f"WHERE EXCLUDED.{base} IS NOT NULL AND {quote_table(Blob)}.{base} IS NULL"
    )


def digest_element(element: NewElement) -> str:
    """Return the digest of the blob that stands for an element of a list."""
    if isinstance(element, PatchedValue):
        return digests.digest_blob(PATCH_TYPE, element.patch)
    return digests.digest_blob(*element)


def patch_if_shorter(value: Encoded, base: Encoded) -> NewElement:
    """Return a value as a patch of another one, or as it is if that is not much shorter.

    Args:
        value: Type and bytes.
        base: Value that has most of these bytes, at about the same places.
    """
    content = value[1]
    if value == base or value[0] != base[0] or len(content) < plain_and_delta_compression.MIN_COMPRESSED_SIZE:
        return value
    patch = bytes.fromhex(digests.digest_blob(*base)) + plain_and_delta_compression.compress_difference(
        content, base[1]
    )
    return PatchedValue(base, patch) if len(patch) < len(content) // 4 else value


def _apply_patch(patch: bytes, base: Encoded) -> Encoded:
    """Return the value that a patch stands for. Raises `ValueError`."""
    return base[0], plain_and_delta_compression.decompress_difference(patch[digests.BLOB_DIGEST_SIZE :], base[1])


def _encode_child_level_and_digest(digest: str, level: int = 0) -> bytes:
    """Build the entry of a node: the number of levels below it, and a digest."""
    return bytes((level,)) + bytes.fromhex(digest)


def load_values_by_digest(
    using: str, session: Session, digests: Iterable[str], known: Mapping[str, Encoded] | None = None
) -> dict[str, EncodedValue]:
    """Load values by their digests. Raises `CheckpointCorrupted` for one that is missing or altered.

    `known` are those that are stored with a write.
    """
    blobs = _load_reachable_blobs(using, session, digests, known or {})
    try:
        return {digest: _assemble_value_from_blobs(blobs, digest) for digest in digests}
    except ValueError as error:
        raise CheckpointCorrupted(session.session_id, "a patched value", str(error)) from error


def load_encoded_contents_of_writes(
    using: str, session: Session, writes: Sequence[FrameworkWrite]
) -> dict[str, Encoded]:
    """Load the values of writes that are stored with them, by digest. Raises `CheckpointCorrupted`."""
    rows = [write for write in writes if write.content is not None]
    return {
        row.digest: (row.type, _get_content_or_raise_corrupted(session, f"write {row.pk}", content))
        for row, content in zip(
            rows, opaque_bytes_as_message_differences.read_contents_or_errors(using, rows), strict=True
        )
    }


def _assemble_value_from_blobs(blobs: Mapping[str, Encoded], digest: str) -> EncodedValue:
    if blobs[digest][0] != LIST_TYPE:
        return blobs[digest]
    elements = list(_iterate_element_digests(blobs, digest))
    return StoredList((_assemble_element_from_blobs(blobs, element) for element in elements), elements)


def _assemble_element_from_blobs(blobs: Mapping[str, Encoded], digest: str) -> Encoded:
    type_, content = blobs[digest]
    if type_ != PATCH_TYPE:
        return type_, content
    return _apply_patch(content, blobs[_get_base_digest(content)])


def _iterate_element_digests(blobs: Mapping[str, Encoded], node_digest: str) -> Iterable[str]:
    for level, digest in _parse_list_node_into_child_levels_and_digests(blobs[node_digest][1]):
        if level == 0:
            yield digest
        else:
            yield from _iterate_element_digests(blobs, digest)


def _parse_list_node_into_child_levels_and_digests(node: bytes) -> Iterable[tuple[int, str]]:
    """Yield the level and the digest of each child; a child of level 0 is an element, any other one is a node."""
    for start in range(0, len(node), _ENTRY_SIZE):
        yield node[start], node[start + 1 : start + _ENTRY_SIZE].hex()


def _get_base_digest(patch: bytes) -> str:
    return patch[: digests.BLOB_DIGEST_SIZE].hex()


def _list_digests_referenced_by_blob(type_: str, content: bytes) -> Sequence[str]:
    """List the digests of the blobs that a blob needs."""
    if type_ == LIST_TYPE:
        return [digest for _, digest in _parse_list_node_into_child_levels_and_digests(content)]
    return [_get_base_digest(content)] if type_ == PATCH_TYPE else []


def _load_reachable_blobs(
    using: str, session: Session, roots: Iterable[str], known: Mapping[str, Encoded]
) -> dict[str, Encoded]:
    blobs: dict[str, Encoded] = {}
    wanted = set(roots)
    while wanted:
        read = _read_blobs(using, session, wanted - known.keys())
        for digest in wanted:
            if digest not in read and digest not in known:
                raise CheckpointCorrupted(session.session_id, f"blob {digest}", "it is missing")
            blobs[digest] = known[digest] if digest in known else read[digest]
        wanted = {each for digest in wanted for each in _list_digests_referenced_by_blob(*blobs[digest])} - blobs.keys()
    return blobs


def _read_blobs(using: str, session: Session, digests: Iterable[str]) -> dict[str, Encoded]:
    rows = list(_query_blobs(using, session, digests))
    return {
        row.digest: (row.type, _get_content_or_raise_corrupted(session, f"blob {row.digest}", content))
        for row, content in zip(
            rows, opaque_bytes_as_message_differences.read_contents_or_errors(using, rows), strict=True
        )
    }


def _query_blobs(using: str, session: Session, digests: Iterable[str]) -> Iterable[Blob]:
    for part in _split_into_query_batches(sorted(digests)):
        yield from Blob.objects.using(using).filter(session=session, digest__in=part)


def _get_content_or_raise_corrupted(session: Session, what: str, content: bytes | ValueError) -> bytes:
    if isinstance(content, ValueError):
        raise CheckpointCorrupted(session.session_id, what, str(content)) from content
    return content


def find_blob_digests_needed_by_writes(using: str, session: Session) -> set[str]:
    """List the digests of the blobs that the writes of a session need. Raises `CheckpointCorrupted`."""
    rows = FrameworkWrite.objects.using(using).filter(session=session)
    found = set(rows.filter(content=None).values_list("digest", flat=True))
    lists = list(rows.filter(content__isnull=False, type__in=_REFERRING_TYPES))
    for type_, content in load_encoded_contents_of_writes(using, session, lists).values():
        found.update(_list_digests_referenced_by_blob(type_, content))
    return found


def delete_unreachable_blobs(using: str, session: Session, roots: Iterable[str]) -> int:
    """Delete the blobs that no value of `roots` contains. Returns their number. The session has to be locked."""
    needed = _collect_reachable_digests(using, session, roots)
    stored = Blob.objects.using(using).filter(session=session)
    unreachable = [digest for digest in stored.values_list("digest", flat=True) if digest not in needed]
    return sum(stored.filter(digest__in=part).delete()[0] for part in _split_into_query_batches(unreachable))


def list_digests_of_unstored_blobs(using: str, session: Session, roots: Iterable[str]) -> list[str]:
    """List the digests of the blobs that a value of `roots` contains and the session does not have."""
    needed = _collect_reachable_digests(using, session, roots)
    return sorted(needed - set(Blob.objects.using(using).filter(session=session).values_list("digest", flat=True)))


def _collect_reachable_digests(using: str, session: Session, roots: Iterable[str]) -> set[str]:
    """List the digests of the blobs that values contain. Raises `CheckpointCorrupted` for a list that is altered."""
    needed, wanted = set[str](), set(roots)
    while wanted:
        needed |= wanted
        rows = [row for row in _query_blobs(using, session, wanted) if row.type in _REFERRING_TYPES]
        contents = [
            (row.type, _get_content_or_raise_corrupted(session, f"blob {row.digest}", content))
            for row, content in zip(
                rows, opaque_bytes_as_message_differences.read_contents_or_errors(using, rows), strict=True
            )
        ]
        wanted = {digest for content in contents for digest in _list_digests_referenced_by_blob(*content)} - needed
    return needed


def _split_into_query_batches(digests: Sequence[str]) -> Iterable[Sequence[str]]:
    return (digests[start : start + _QUERY_SIZE] for start in range(0, len(digests), _QUERY_SIZE))


def convert_value_to_json(value: EncodedValue) -> Any:
    """Return a JSON value that shows an opaque value. Nothing that it names is imported or called.

    Args:
        value: Type and bytes, or a list of them.

    Returns:
        A JSON value; a text in round brackets if the type has no readable form.
    """
    if isinstance(value, list):
        return [convert_value_to_json(item) for item in value]
    type_, content = value
    if type_ == "null":
        return None
    if type_ == "msgpack":
        return convert_msgpack_to_json_value(content)
    if type_ == "json":
        return parse_json_or_return_text(content.decode("utf-8", "replace"))
    return f"({len(content):,} bytes of type {type_})"
