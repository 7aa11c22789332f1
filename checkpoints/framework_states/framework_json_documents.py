"""JSON documents that a foreign framework keeps beside the messages of a session, each replaced as a whole."""

from __future__ import annotations

from typing import Any, Final

from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.exceptions import CheckpointCorrupted, InvalidInput
from checkpoints.formats.canonical_json import parse_json, to_canonical_json
from checkpoints.framework_states import state_store
from checkpoints.models import FrameworkState, Session
from checkpoints.models.framework_state_blobs_and_writes import NAMESPACE_LENGTH
from checkpoints.seals import row_seals
from checkpoints.store.database_client_state import Store

_STATE_ID: Final = "document"
_TYPE: Final = "json"


def load_document(store: Store, session_id: str, framework: str, name: str) -> Any:
    """Load a document. Returns None if there is none.

    Args:
        store: State of the client.
        session_id: Identifier of the session, which does not have to exist.
        framework: Name of the framework.
        name: Name of the document.

    Raises:
        IntegrityError: The row is not one that this library wrote.
        CheckpointCorrupted: The document cannot be read.
    """
    states = state_store.select_states(store, session_id, _build_document_namespace(framework, name))
    with database_operation(store.using, writes=False):
        row = states.filter(state_id=_STATE_ID).first()
        if row is None:
            return None
        row_seals.verify_row(row)
    try:
        return parse_json(bytes(row.body).decode())
    except ValueError as error:
        raise CheckpointCorrupted(session_id, f"the document {name!r}", str(error)) from error


def save_document(store: Store, row: Session, framework: str, name: str, value: Any) -> None:
    """Store a document of a session that is locked in the transaction of the caller.

    Args:
        store: State of the client.
        row: Locked row of the session.
        framework: Name of the framework.
        name: Name of the document.
        value: JSON value.

    Raises:
        NotRepresentable: The value has no exact JSON form.
        InvalidInput: The name is too long.
    """
    namespace = _build_document_namespace(framework, name)
    body = to_canonical_json(value, name).encode()
    states = FrameworkState.objects.using(store.using).filter(session=row, namespace=namespace, state_id=_STATE_ID)
    if not states.update(body=body):
        states.create(
            session=row,
            namespace=namespace,
            state_id=_STATE_ID,
            body_type=_TYPE,
            body=body,
            metadata_type=_TYPE,
            metadata=b"{}",
        )


def _build_document_namespace(framework: str, name: str) -> str:
    namespace = f"{framework}/{name}"
    if len(namespace) > NAMESPACE_LENGTH:
        raise InvalidInput(f"The name {name[:40]}… is longer than {NAMESPACE_LENGTH} characters.")
    return namespace
