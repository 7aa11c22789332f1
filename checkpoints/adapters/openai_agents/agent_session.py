"""Session of the OpenAI Agents SDK, stored as a session of this library: its items are the messages.

A run that `HarnessRunner` started changes what its session does: it keeps the input and the answers of the model too.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from agents.memory import SessionSettings
from agents.memory.session_settings import coerce_session_settings, resolve_session_limit

from checkpoints.adapters.openai_agents import unfinished_run_and_model_answer
from checkpoints.adapters.openai_agents.unfinished_run_and_model_answer import ContinuedRun, OpenRun
from checkpoints.adapters.session_claims import SessionClaims
from checkpoints.adapters.sync_or_async_client import AdapterClient
from checkpoints.async_client import Checkpointer
from checkpoints.formats import parse_message_parts
from checkpoints.framework_states import message_list_without_lease
from checkpoints.sessions.new_session_fields import OPENAI_AGENTS_SDK, NewSessionFields
from checkpoints.sync_client import SyncCheckpointer

T = TypeVar("T")
Item = dict[str, Any]


class HarnessSession:
    """Memory of an agent that any process can continue: the SDK's `Session` protocol.

        session = HarnessSession("order-17", checkpointer)
        result = await Runner.run(agent, "Where is my refund?", session=session)

    Each change is a version of the session with this identifier, on all pages of the site. Several processes may use
    it: no item is lost, none is there twice, and none is popped twice. While a run of another process owns the session,
    a change is refused with `SessionBusy`.
    """

    def __init__(
        self,
        session_id: str,
        checkpointer: SyncCheckpointer | Checkpointer | None = None,
        *,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        agent: str = "openai-agents",
        title: str = "",
    ) -> None:
        """Create the object; the session itself is created by the first change.

        Args:
            session_id: Identifier of the session.
            checkpointer: Client of a database, blocking or async. None uses the `default` database of the project.
            session_settings: Settings of the SDK, such as the largest number of items for the model.
            agent: Name of the agent of a new session, for lists and filters.
            title: Title of a new session. Empty: the first text of the user.

        Raises:
            InvalidInput: The client is one of a server over HTTP.
        """
        self.session_id = session_id
        self.session_settings: SessionSettings | None = (
            SessionSettings() if session_settings is None else coerce_session_settings(session_settings)
        )
        self.client = AdapterClient(checkpointer)
        self._agent, self._title = agent, title

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Return the items in order.

        Args:
            limit: Number of items, the newest ones; a negative number stands for all. None: as the settings say.
                A run that continues gets all of its own items.

        Returns:
            The items, equal to those that were added.

        Raises:
            CheckpointCorrupted: A stored item cannot be read.
        """
        count = resolve_session_limit(limit, self.session_settings)
        count = None if count is None or count < 0 else count
        run = find_run_context(self)
        if run is None or run.continued_from is None:
            return await self.client.run_database_work_to_end(
                partial(
                    message_list_without_lease.list_messages_of_newest_version,
                    self.client.store,
                    self.session_id,
                    count,
                )
            )
        history = await self.client.run_database_work_to_end(
            partial(message_list_without_lease.list_messages_of_newest_version, self.client.store, self.session_id)
        )
        if run.answer is not None:  # it is not history for a run that gets it as an answer
            del history[run.answer_first : run.answer_first + len(run.answer)]
        # A model that does not see what it has done already would ask for it again.
        return history if count is None else history[max(min(len(history) - count, run.continued_from), 0) :]

    async def add_items(self, items: list[Any]) -> None:
        """Append items as one version.

        Args:
            items: Items, oldest first.

        Raises:
            SessionFinished: The session has ended.
            SessionBusy: A run of another client owns the session and is alive.
            OwnershipLost: Another run has taken the session from this client.
            NotRepresentable: An item has no exact JSON form.
            TooLarge: An item is larger than its limit.
        """
        added = copy.deepcopy(items)
        description = self.build_session_description(added)
        run = find_run_context(self)
        if run is None:
            add = partial(
                unfinished_run_and_model_answer.append_items_not_in_answer,
                self.client.store,
                self.session_id,
                added,
                description,
            )
            await self.run_under_session_claims_lock(add)
        else:
            await run.save_input_or_turn_items(added, description)

    async def pop_item(self) -> Any | None:
        """Remove the newest item and return it; None if there is none. Earlier versions keep it.

        Raises:
            SessionFinished: The session has ended.
            SessionBusy: A run of another client owns the session and is alive.
            OwnershipLost: Another run has taken the session from this client.
        """
        return await self.run_under_session_claims_lock(
            partial(
                message_list_without_lease.remove_and_return_last_message,
                self.client.store,
                self.session_id,
                self.build_session_description(),
            )
        )

    async def clear_session(self) -> None:
        """Remove all items. Earlier versions keep them. Raises what `pop_item` raises."""
        await self.run_under_session_claims_lock(
            partial(
                message_list_without_lease.remove_all_messages,
                self.client.store,
                self.session_id,
                self.build_session_description(),
            )
        )

    async def run_under_session_claims_lock(self, work: Callable[[], T]) -> T:
        """Run a change of the session, while no other thread of this client claims or releases it.

        Args:
            work: Function without arguments.

        Returns:
            What `work` returns.
        """

        def run_work_under_lock() -> T:
            with SessionClaims.get_for_client(self.client.sync).lock_session_claims(self.session_id):
                return work()

        return await self.client.run_database_work_to_end(run_work_under_lock)

    def build_session_description(self, items: list[Item] | None = None) -> NewSessionFields:
        """Describe the session for its creation.

        Args:
            items: Items whose first text of the user is the title, if there is no other.

        Returns:
            The description.
        """
        return NewSessionFields(
            self._title or parse_message_parts.find_first_user_text_or_empty(items or []),
            self._agent,
            framework=OPENAI_AGENTS_SDK,
        )


@dataclass(eq=False)
class RunContext:
    """State of a run that is in progress.

    Attributes:
        session: Session that it is stored in.
        input_digest: Digest of its input; empty for a run that continues a state of the SDK.
        agent: Name of the agent whose turn it is.
        is_begun: Whether its input is stored.
        is_open: Whether the session says that a run is open.
        continued_from: Position of its first item, if it continues a run of an earlier start. None: it does not.
        answer: Stored answer of the model that the run still has to get. None: the model is asked.
        answer_first: Position of that answer in the transcript.
        response: Identifier and usage of that answer.
        inner_calls: Identifiers of the finished calls of inner agents since the last saved turn.
        own: Run as it has stored itself, with its open answer. None: it continues a state of the SDK, and has not yet.
    """

    session: HarnessSession
    input_digest: str = ""
    agent: str = ""
    is_begun: bool = False
    is_open: bool = False
    continued_from: int | None = None
    answer: list[Item] | None = None
    answer_first: int = 0
    response: dict[str, Any] = field(default_factory=dict)
    inner_calls: list[str] = field(default_factory=list)
    own: ContinuedRun | None = None

    async def save_input_or_turn_items(self, items: list[Item], description: NewSessionFields) -> None:
        """Store what the SDK saves: the input of the run, or the items of a turn.

        Args:
            items: Items, oldest first.
            description: Description of the session if it does not exist.
        """
        store, session_id = self.session.client.store, self.session.session_id
        if not self.is_begun:
            run = OpenRun(self.input_digest, self.agent)
            begun = await self.session.run_under_session_claims_lock(
                partial(
                    unfinished_run_and_model_answer.append_input_and_open_run,
                    store,
                    session_id,
                    items,
                    run,
                    self.own.run if self.own is not None and self.own.answer else None,
                    description,
                )
            )
            self._set_own_run(begun, [] if self.own is None else self.own.answer)
            self.is_begun = True
            return
        answered, self.inner_calls = self.inner_calls, []
        after = await self.session.run_under_session_claims_lock(
            partial(
                unfinished_run_and_model_answer.append_items_not_in_answer,
                store,
                session_id,
                items,
                description,
                own=self.own,
                agent=self.agent,
                answered=answered,
            )
        )
        self._set_own_run(after, [] if self.own is None else self.own.answer)

    async def store_model_answer(self, items: list[Item], response: dict[str, Any]) -> None:
        """Store an answer of the model before anything of it is carried out.

        Args:
            items: Items of the answer.
            response: Identifier and usage of the answer, and the name of the model if it is known.
        """
        run = await self.session.run_under_session_claims_lock(
            partial(
                unfinished_run_and_model_answer.store_model_answer,
                self.session.client.store,
                self.session.session_id,
                items,
                None if self.own is None else self.own.run,
                self.agent,
                response,
                self.session.build_session_description(),
            )
        )
        self._set_own_run(run, items)

    async def record_run_end(self, *, discard_answer: bool = False) -> None:
        """Store that the run has ended.

        Args:
            discard_answer: Whether to remove an answer whose turn was not saved.
        """
        if self.is_open:
            await self.session.run_under_session_claims_lock(
                partial(
                    unfinished_run_and_model_answer.record_open_run_end,
                    self.session.client.store,
                    self.session.session_id,
                    self.session.build_session_description(),
                    own=None if self.own is None else self.own.run,
                    discard_answer=discard_answer,
                )
            )
            self.is_open = False

    def _set_own_run(self, run: OpenRun | None, answer: list[Item]) -> None:
        """Remember the run as it is stored; None: it has no further turn."""
        self.is_open = run is not None
        if run is not None:
            self.own = ContinuedRun(run, answer if run.count else [])


#: Run of the current task and those that it has started.
ACTIVE_RUN: ContextVar[RunContext | None] = ContextVar("harness_openai_agents_run", default=None)


def find_run_context(session: object) -> RunContext | None:
    """Find the run that uses a session in this task.

    Args:
        session: The session.

    Returns:
        The run; None if there is none, or if it uses another session.
    """
    run = ACTIVE_RUN.get()
    return run if run is not None and run.session is session else None
