"""Turns that survive a crash: what the model answered is in the session before a tool runs.

The SDK saves a turn at its end. Here the answer of the model is stored when it arrives, as messages of the transcript,
and the payload of the version says that its turn is open. A run that continues gets the stored answer instead of
asking the model again, and the items that the SDK saves at the end of the turn are not stored a second time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from checkpoints.exceptions import CheckpointCorrupted
from checkpoints.formats import digests, parse_message_parts
from checkpoints.formats.canonical_json import parse_json_object, to_canonical_json
from checkpoints.framework_states import durable_message_list, write_transcript_version
from checkpoints.framework_states.write_transcript_version import VersionContent
from checkpoints.models import Checkpoint, Session
from checkpoints.sessions.new_session_fields import NewSessionFields
from checkpoints.store.database_client_state import Store
from checkpoints.versions import load_version

Item = dict[str, Any]
#: Name in the payload of a version.
_KEY = "openai_agents"


@dataclass(frozen=True)
class OpenRun:
    """Run that has begun and not ended.

    Attributes:
        input_digest: Digest of its input, which tells a repeated start from a new request.
        agent: Name of the agent whose turn it is; empty if that is not known.
        first: Position of the model's answer in the transcript.
        count: Number of the answer's items. 0: the turn is saved, and no answer is there yet.
        response: Identifier and usage of the answer.
        held: Items of the turn that the SDK has saved before all of its calls had results.
        start: Position of the run's input in the transcript.
    """

    input_digest: str = ""
    agent: str = ""
    first: int = 0
    count: int = 0
    response: dict[str, Any] = field(default_factory=dict)
    held: list[Item] = field(default_factory=list)
    start: int = 0

    def to_payload(self) -> dict[str, Any]:
        """Return the payload of a version that says this."""
        return {_KEY: asdict(self)}

    def copy_without_answer(self) -> OpenRun:
        """Return the run after its turn was saved."""
        return OpenRun(self.input_digest, self.agent, start=self.start)


@dataclass(frozen=True)
class ContinuedRun:
    """Open run as a start finds it, with the items of the model's answer that has no results yet."""

    run: OpenRun
    answer: list[Item]


def digest_run_input(items: Sequence[Any]) -> str:
    """Return the digest of a run's input. Raises `NotRepresentable`."""
    return digests.digest_text(to_canonical_json(list(items), "input"))


def find_open_run(store: Store, session_id: str) -> ContinuedRun | None:
    """Find the run that has begun in a session and not ended.

    Args:
        store: State of the client.
        session_id: Identifier of the session.

    Returns:
        The run; None if there is none.

    Raises:
        CheckpointCorrupted: The stored run cannot be read.
    """
    newest = load_version.load_latest_version(store, session_id)
    run = None if newest is None else _parse_open_run(session_id, newest["payload"])
    if newest is None or run is None:
        return None
    answer = newest["transcript"][run.first : run.first + run.count]
    return ContinuedRun(run, answer) if len(answer) == run.count else ContinuedRun(run.copy_without_answer(), [])


def append_input_and_open_run(
    store: Store, session_id: str, items: list[Item], run: OpenRun, description: NewSessionFields
) -> None:
    """Append the input of a run, and say that the run has begun.

    Raises what `write_next_version_atomically` raises, `NotRepresentable` and `TooLarge`.
    """
    durable_message_list.write_next_version_atomically(
        store,
        session_id,
        description,
        lambda row, newest: _build_content_with_input(row, newest, items, run),
        is_repeatable=True,
    )


def _build_content_with_input(
    row: Session, newest: Checkpoint | None, items: list[Item], new: OpenRun
) -> VersionContent:
    """Return the version with the input of a run, which may arrive while the answer of an earlier run is open."""
    run = _read_open_run(row, newest)
    if run is not None and run.count:
        new = replace(run, input_digest=new.input_digest)
    else:
        new = replace(new, start=row.message_count)
    return VersionContent(None, added=items, payload=new.to_payload(), always=True)


def store_model_answer(
    store: Store,
    session_id: str,
    items: list[Item],
    agent: str,
    response: dict[str, Any],
    description: NewSessionFields,
) -> None:
    """Append what the model answered. Its turn is open until `append_items_not_in_answer` has the results of its calls.

    Args:
        store: State of the client.
        session_id: Identifier of the session.
        items: Items of the answer.
        agent: Name of the agent.
        response: Identifier and usage of the answer.
        description: Description of the session if it does not exist.

    Raises:
        SessionFinished: The session has ended.
        SessionBusy: A run of another client owns the session and is alive.
        OwnershipLost: Another run has taken the session from this client.
        NotRepresentable: An item has no exact JSON form.
        TooLarge: An item is larger than its limit.
    """

    def build_version_with_answer(row: Session, newest: Checkpoint | None) -> VersionContent:
        before = _read_open_run(row, newest) or OpenRun()
        run = OpenRun(before.input_digest, agent, row.message_count, len(items), response, start=before.start)
        return VersionContent(None, added=items, payload=run.to_payload())

    durable_message_list.write_next_version_atomically(
        store, session_id, description, build_version_with_answer, is_repeatable=True
    )


def append_items_not_in_answer(
    store: Store,
    session_id: str,
    items: list[Item],
    description: NewSessionFields,
    *,
    agent: str = "",
    answered: Iterable[str] = (),
) -> bool:
    """Append items, without those of an open answer, which are stored already.

    Args:
        store: State of the client.
        session_id: Identifier of the session.
        items: Items, oldest first.
        description: Description of the session if it does not exist.
        agent: Name of the agent whose turn is next; empty keeps the known one.
        answered: Identifiers of calls of inner agents, which are closed with the turn.

    Returns:
        Whether a run is open after it.

    Raises:
        SessionFinished: The session has ended.
        SessionBusy: A run of another client owns the session and is alive.
        OwnershipLost: Another run has taken the session from this client.
        NotRepresentable: An item has no exact JSON form.
        TooLarge: An item is larger than its limit.
    """
    is_open = False

    def build_version_with_items(row: Session, newest: Checkpoint | None) -> VersionContent | None:
        nonlocal is_open
        run = _read_open_run(row, newest)
        content, after = _build_content_and_remaining_run(store, row, run, items, answered)
        is_open = after is not None
        if after is not None and agent and not after.count:
            after = replace(after, agent=agent)
        return replace(content, payload=None if after is None else after.to_payload())

    durable_message_list.write_next_version_atomically(
        store, session_id, description, build_version_with_items, is_repeatable=True
    )
    return is_open


def _build_content_and_remaining_run(
    store: Store, row: Session, run: OpenRun | None, items: list[Item], answered: Iterable[str]
) -> tuple[VersionContent, OpenRun | None]:
    """Return the version that items make, and the run that is open after it."""
    if run is None or not run.count:
        return VersionContent(None, added=items), run
    answer = durable_message_list.list_newest_messages(store, row.session_id)[run.first : run.first + run.count]
    rest = _list_items_not_in_answer(items, answer)
    calls, results = _find_call_and_result_ids(answer)
    new_results = _find_call_and_result_ids(rest)[1]
    if len(rest) == len(items) and not new_results:  # of somebody else, such as a message of the user
        return VersionContent(None, added=items), run
    turn = [*run.held, *_list_items_not_in_answer(rest, run.held)]
    if calls <= results | _find_call_and_result_ids(turn)[1]:
        closed = write_transcript_version.build_empty_results(answered)
        return VersionContent(None, closed, added=turn, always=True), run.copy_without_answer() if calls else None
    # A result in the transcript would close its call, and the next start would take the call for a new one.
    return VersionContent(None, always=True), replace(run, held=turn)


def end_run(store: Store, session_id: str, description: NewSessionFields, *, discard: bool = False) -> None:
    """Say that no run is open.

    Args:
        store: State of the client.
        session_id: Identifier of the session.
        description: Description of the session if it does not exist.
        discard: Whether to remove an answer whose turn was not saved, such as one that a guardrail has blocked.

    Raises:
        SessionFinished: The session has ended.
        SessionBusy: A run of another client owns the session and is alive.
        OwnershipLost: Another run has taken the session from this client.
    """

    def build_version_without_open_run(row: Session, newest: Checkpoint | None) -> VersionContent | None:
        run = _read_open_run(row, newest)
        if run is None:
            return None
        keep = run.first if discard and run.count and row.message_count == run.first + run.count else None
        return VersionContent(None, keep=keep, always=True)

    durable_message_list.write_next_version_atomically(store, session_id, description, build_version_without_open_run)


def _read_open_run(row: Session, newest: Checkpoint | None) -> OpenRun | None:
    if newest is None or newest.payload is None:
        return None
    try:
        payload = parse_json_object(newest.payload)
    except ValueError as error:
        raise CheckpointCorrupted(row.session_id, "payload", str(error)) from error
    run = _parse_open_run(row.session_id, payload)
    is_whole = run is not None and run.first + run.count <= row.message_count
    return run if run is None or is_whole else run.copy_without_answer()


def _parse_open_run(session_id: str, payload: Any) -> OpenRun | None:
    value = payload.get(_KEY) if isinstance(payload, dict) else None
    if value is None:
        return None
    try:
        run = OpenRun(**value)
    except TypeError as error:
        raise CheckpointCorrupted(session_id, f"the payload {_KEY!r}", str(error)) from error
    stored = (run.input_digest, run.agent, run.first, run.count, run.response, run.held, run.start)
    if tuple(map(type, stored)) != (str, str, int, int, dict, list, int):
        raise CheckpointCorrupted(session_id, f"the payload {_KEY!r}", "its fields have other types")
    return run


def _list_items_not_in_answer(items: Sequence[Item], answer: Sequence[Item]) -> list[Item]:
    """Return the items that are not those of an answer, each of which counts once."""
    stored = [_build_item_key(item) for item in answer]
    rest = []
    for item in items:
        key = _build_item_key(item)
        if key in stored:
            stored.remove(key)
        else:
            rest.append(item)
    return rest


def _build_item_key(item: Item) -> tuple[str, ...]:
    """Return what is the same in an item of the model and in that item as the SDK saves it."""
    kind = str(item.get("type", "message"))
    if isinstance(item.get("call_id"), str):
        return kind, item["call_id"]
    said = {key: value for key, value in item.items() if key not in {"id", "status"}}
    return kind, parse_message_parts.parts_to_text(parse_message_parts.list_message_parts(said))


def _find_call_and_result_ids(items: Iterable[Item]) -> tuple[set[str], set[str]]:
    """Return the identifiers of the calls and of the results among items."""
    calls, results = set(), set()
    for item in items:
        call_id, kind = item.get("call_id"), str(item.get("type", ""))
        if isinstance(call_id, str) and kind.endswith("_output"):
            results.add(call_id)
        elif isinstance(call_id, str) and kind.endswith("_call"):
            calls.add(call_id)
    return calls, results
