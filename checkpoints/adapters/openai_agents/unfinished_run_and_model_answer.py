"""Turns that survive a crash: what the model answered is in the session before a tool runs.

The SDK saves a turn at its end. Here the answer of the model is stored when it arrives, as messages of the transcript,
and the payload of the version says that its turn is open. A run that continues gets the stored answer instead of
asking the model again, and the items that the SDK saves at the end of the turn are not stored a second time.

Two runs may use a session at the same time, and the payload has the one that has answered last. Each run therefore
remembers its own answer, and leaves the payload of the other one as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from checkpoints.exceptions import CheckpointCorrupted, OwnershipLost
from checkpoints.formats import digests, parse_message_parts
from checkpoints.formats.canonical_json import parse_json_object, to_canonical_json
from checkpoints.framework_states import message_list_without_lease, write_transcript_version
from checkpoints.framework_states.write_transcript_version import VersionContent
from checkpoints.models import Checkpoint, Session
from checkpoints.sessions.new_session_fields import NewSessionFields
from checkpoints.store import look_up_and_lock_rows
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
        response: Identifier and usage of the answer, and the name of the model if it is known.
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

    def is_same_run(self, other: OpenRun) -> bool:
        """Return whether another record is one of the same run."""
        return (self.input_digest, self.start) == (other.input_digest, other.start)

    def has_answer_at_same_position(self, other: OpenRun) -> bool:
        """Return whether another record has its open answer at the same place."""
        return (self.first, self.count) == (other.first, other.count)


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
    run = None if newest is None else _parse_open_run_if_present(session_id, newest["payload"])
    if newest is None or run is None:
        return None
    answer = newest["transcript"][run.first : run.first + run.count]
    return ContinuedRun(run, answer) if len(answer) == run.count else ContinuedRun(run.copy_without_answer(), [])


def append_input_and_open_run(
    store: Store,
    session_id: str,
    items: list[Item],
    run: OpenRun,
    continued: OpenRun | None,
    description: NewSessionFields,
) -> OpenRun:
    """Append the input of a run, and say that the run has begun.

    `continued` is an earlier run whose open answer it takes over. Returns the run with its place. Raises
    `OwnershipLost` if another run has finished the turn of that answer, what `write_next_version_built_by_callback`
    raises, `NotRepresentable` and `TooLarge`.
    """
    begun = run

    def build_version_with_input(row: Session, newest: Checkpoint | None) -> VersionContent:
        nonlocal begun
        begun = _build_new_or_continued_run(row, newest, run, continued)
        return VersionContent(None, added=items, payload=begun.to_payload(), always=True)

    message_list_without_lease.write_next_version_built_by_callback(
        store, session_id, description, build_version_with_input, is_repeatable=True
    )
    return begun


def _build_new_or_continued_run(
    row: Session, newest: Checkpoint | None, new: OpenRun, continued: OpenRun | None
) -> OpenRun:
    """Return a run as it begins: an earlier one with its open answer, or one whose input is the next message.

    Raises `OwnershipLost` if another run has finished the turn of that answer meanwhile.
    """
    if continued is None:
        return replace(new, start=row.message_count)
    found = _parse_open_run_and_drop_missing_answer(row, newest)
    if found is None or not found.has_answer_at_same_position(continued):
        raise OwnershipLost(row.session_id)
    return replace(found, input_digest=new.input_digest)


def store_model_answer(
    store: Store,
    session_id: str,
    items: list[Item],
    own: OpenRun | None,
    agent: str,
    response: dict[str, Any],
    description: NewSessionFields,
) -> OpenRun:
    """Append what the model answered. Its turn is open until `append_items_not_in_answer` has the results of its calls.

    Args:
        store: State of the client.
        session_id: Identifier of the session.
        items: Items of the answer.
        own: Run that has asked. None: the one that is open.
        agent: Name of the agent.
        response: Identifier and usage of the answer, and the name of the model if it is known.
        description: Description of the session if it does not exist.

    Returns:
        The run with its answer.

    Raises:
        SessionFinished: The session has ended.
        SessionBusy: A run of another client owns the session and is alive.
        OwnershipLost: Another run has taken the session from this client.
        NotRepresentable: An item has no exact JSON form.
        TooLarge: An item is larger than its limit.
    """
    run = OpenRun()

    def build_version_with_answer(row: Session, newest: Checkpoint | None) -> VersionContent:
        nonlocal run
        before = own or _parse_open_run_and_drop_missing_answer(row, newest) or OpenRun()
        run = OpenRun(before.input_digest, agent, row.message_count, len(items), response, start=before.start)
        return VersionContent(
            None, added=items, payload=run.to_payload(), usage=response.get("usage"), model=response.get("model", "")
        )

    message_list_without_lease.write_next_version_built_by_callback(
        store, session_id, description, build_version_with_answer, is_repeatable=True
    )
    return run


def append_items_not_in_answer(
    store: Store,
    session_id: str,
    items: list[Item],
    description: NewSessionFields,
    *,
    own: ContinuedRun | None = None,
    agent: str = "",
    answered: Iterable[str] = (),
) -> OpenRun | None:
    """Append items, without those of an open answer, which are stored already.

    Args:
        store: State of the client.
        session_id: Identifier of the session.
        items: Items, oldest first.
        description: Description of the session if it does not exist.
        own: Run whose items they are, with its answer. None: the one that is open.
        agent: Name of the agent whose turn is next; empty keeps the known one.
        answered: Identifiers of calls of inner agents, which are closed with the turn.

    Returns:
        The run after it; None if it has no further turn.

    Raises:
        SessionFinished: The session has ended.
        SessionBusy: A run of another client owns the session and is alive.
        OwnershipLost: Another run has taken the session from this client.
        NotRepresentable: An item has no exact JSON form.
        TooLarge: An item is larger than its limit.
    """
    after: OpenRun | None = None

    def build_version_with_items(row: Session, newest: Checkpoint | None) -> VersionContent:
        nonlocal after
        content, after, open_run = _build_content_and_remaining_runs(
            store, row, _parse_open_run_and_drop_missing_answer(row, newest), own, items, answered
        )
        if open_run is not None and (own is None or open_run.is_same_run(own.run)):
            open_run = _set_agent_if_unanswered(open_run, agent)
        after = None if after is None else _set_agent_if_unanswered(after, agent)
        return replace(content, payload=None if open_run is None else open_run.to_payload())

    message_list_without_lease.write_next_version_built_by_callback(
        store, session_id, description, build_version_with_items, is_repeatable=True
    )
    return after


def _set_agent_if_unanswered(run: OpenRun, agent: str) -> OpenRun:
    return replace(run, agent=agent) if agent and not run.count else run


def _build_content_and_remaining_runs(
    store: Store,
    row: Session,
    found: OpenRun | None,
    own: ContinuedRun | None,
    items: list[Item],
    answered: Iterable[str],
) -> tuple[VersionContent, OpenRun | None, OpenRun | None]:
    """Return the version that items of a run make, that run after it, and the run that the payload has then."""
    run = found if own is None else own.run
    if run is None or not run.count:
        return VersionContent(None, added=items), run, found
    messages = message_list_without_lease.list_messages_of_newest_version(store, row.session_id)
    end = run.first + run.count
    answer, later = messages[run.first : end], messages[end:]
    if own is not None and list(map(_build_item_key, answer)) != list(map(_build_item_key, own.answer)):
        return VersionContent(None, added=items), run.copy_without_answer(), found  # somebody has removed the answer
    rest = _list_items_not_in_answer(items, answer)
    calls, results = _find_call_and_result_ids(answer)
    if len(rest) == len(items) and not _find_call_and_result_ids(rest)[1]:  # of somebody else, such as a user's message
        return VersionContent(None, added=items), run, found
    stored_results = _find_call_and_result_ids(later)[1]
    rest = [item for item in rest if not _find_call_and_result_ids([item])[1] & stored_results]
    is_found = found is not None and found.has_answer_at_same_position(run)
    held = found.held if found is not None and is_found else run.held
    turn = [*held, *_list_items_not_in_answer(rest, held)]
    if calls <= results | stored_results | _find_call_and_result_ids(turn)[1]:
        closed = write_transcript_version.build_empty_call_results(answered)
        content = VersionContent(None, closed, added=turn, always=True)
        after = run.copy_without_answer() if calls else None
        if found is None or not is_found:
            return content, after, found
        return content, after, found.copy_without_answer() if calls or not found.is_same_run(run) else None
    if found is None or not is_found:  # only the run in the payload can hold items back
        return VersionContent(None, added=turn, always=True), replace(run, held=[]), found
    # A result in the transcript would close its call, and the next start would take the call for a new one.
    return VersionContent(None, always=True), replace(run, held=turn), replace(found, held=turn)


def is_call_answered_by_other_run(store: Store, session_id: str, own: ContinuedRun, call_id: str) -> bool:
    """Return whether another run has stored the result of a call that this run is about to make.

    Args:
        store: State of the client, which owns the session.
        session_id: Identifier of the session.
        own: Run that makes the call, with its open answer.
        call_id: Identifier of the call: one of the answer, or one of an agent that is a tool of it.
    """
    row = look_up_and_lock_rows.get_session(store, session_id)
    later = row.message_count - own.run.first - own.run.count
    if not own.answer or later <= 0:
        return False
    results = _find_call_and_result_ids(
        message_list_without_lease.list_messages_of_newest_version(store, session_id, later)
    )[1]
    calls = _find_call_and_result_ids(own.answer)[0]
    return call_id in results or (call_id not in calls and calls <= results)


def record_open_run_end(
    store: Store,
    session_id: str,
    description: NewSessionFields,
    *,
    own: OpenRun | None = None,
    discard_answer: bool = False,
) -> None:
    """Say that a run is not open any more.

    Args:
        store: State of the client.
        session_id: Identifier of the session.
        description: Description of the session if it does not exist.
        own: The run. None: the one that is open.
        discard_answer: Whether to remove an answer whose turn was not saved, such as one that a guardrail has blocked.

    Raises:
        SessionFinished: The session has ended.
        SessionBusy: A run of another client owns the session and is alive.
        OwnershipLost: Another run has taken the session from this client.
    """

    def build_version_without_open_run(row: Session, newest: Checkpoint | None) -> VersionContent | None:
        found = _parse_open_run_and_drop_missing_answer(row, newest)
        run = own or found
        is_last = run is not None and run.count and row.message_count == run.first + run.count
        keep = run.first if run is not None and discard_answer and is_last else None
        is_other = found is not None and run is not None and not found.is_same_run(run)
        if keep is None and (found is None or is_other):
            return None
        payload = found.to_payload() if found is not None and is_other else None
        return VersionContent(None, keep=keep, payload=payload, always=True)

    message_list_without_lease.write_next_version_built_by_callback(
        store, session_id, description, build_version_without_open_run
    )


def _parse_open_run_and_drop_missing_answer(row: Session, newest: Checkpoint | None) -> OpenRun | None:
    if newest is None or newest.payload is None:
        return None
    try:
        payload = parse_json_object(newest.payload)
    except ValueError as error:
        raise CheckpointCorrupted(row.session_id, "payload", str(error)) from error
    run = _parse_open_run_if_present(row.session_id, payload)
    is_whole = run is not None and run.first + run.count <= row.message_count
    return run if run is None or is_whole else run.copy_without_answer()


def _parse_open_run_if_present(session_id: str, payload: Any) -> OpenRun | None:
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
