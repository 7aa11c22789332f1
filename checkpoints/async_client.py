"""Async client: each method runs the one of `SyncCheckpointer` on a thread, as one operation.

Methods that may run the user's code (verify hooks, functions that notify other agents) are written by hand: they await
that code on the caller's event loop and take only the database work to a thread.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, NoReturn, ParamSpec, Self, TypeVar, cast
from uuid import UUID

from checkpoints import constants, sync_and_async_flow_runners
from checkpoints.client_backend import ClientOptions, Closable
from checkpoints.decisions.actors import Actor
from checkpoints.decisions.decision_target import DecisionTarget
from checkpoints.exceptions import CheckpointerClosed
from checkpoints.open_backend import open_backend
from checkpoints.peers.agent_call_and_result_types import TakenTask, Told
from checkpoints.peers.deliver_notices import SendNotice
from checkpoints.resume.resume_point import ResumePoint
from checkpoints.session_handle import OpenOptions, SessionHandle
from checkpoints.sessions.new_session_fields import NewSessionFields
from checkpoints.store.checkpointer_state import CheckpointerState
from checkpoints.store.owning_run_protocol import OwningRun
from checkpoints.sync_and_async_flow_runners import copy_docstring_from
from checkpoints.sync_client import SyncCheckpointer, build_client_of_backend
from checkpoints.tools.registry_and_dispatch import ToolRegistry
from checkpoints.workflows.workflow import Workflow

if TYPE_CHECKING:
    from checkpoints.store.database_client_state import Store

P = ParamSpec("P")
T = TypeVar("T")
_Async = Callable[Concatenate["Checkpointer", P], Coroutine[Any, Any, T]]


def derive_async_method(method: Callable[Concatenate[SyncCheckpointer, P], T]) -> _Async[P, T]:
    """Derive an async method that runs `method` on the client's executor, with the same signature and docstring.

    Args:
        method: Method of `SyncCheckpointer`.

    Returns:
        An `async def` function for the class body of `Checkpointer`.
    """

    @wraps(method)
    async def run_in_thread(self: Checkpointer, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return cast("T", await self.run_blocking(partial(method, self.sync, *args, **kwargs)))

    run_in_thread.__module__ = __name__
    run_in_thread.__qualname__ = f"Checkpointer.{method.__name__}"
    return run_in_thread


class Checkpointer:
    """Async client for the sessions in one workspace of one database: `SyncCheckpointer` with async methods.

    Each operation runs on a thread of an executor that this object owns. Cancelling the caller never leaves a partial
    write: an operation that has begun is finished first. `async with` closes it.
    """

    def __init__(
        self,
        url: str | Path | None = None,
        *,
        workspace: str = constants.DEFAULT_WORKSPACE,
        lease_seconds: float = constants.LEASE_SECONDS,
        using: str = "default",
        migrate: bool | None = None,
        idle_release_seconds: float | None = None,
        token: str | None = None,
    ) -> None:
        """Create a client for one workspace.

        Args:
            url: Path or URL of a database, or address of a server, as in `open`. None uses the Django connection
                `using`.
            workspace: Name (slug) of the workspace whose sessions this client sees. A server's token has its own.
            lease_seconds: Time in seconds without a heartbeat after which a run counts as lost.
            using: Alias of the Django database connection. Ignored when `url` is given.
            migrate: Whether to create and update the tables of the database at `url`. None: SQLite yes, PostgreSQL no.
            idle_release_seconds: Time in seconds after which an unused session is released automatically; the next
                write to it raises `ReleasedWhenIdle`. None never releases one.
            token: Token for the server at `url`, from the settings of its site.

        Raises:
            InvalidInput: A time is not a positive number; or, for a server, there is no token, or an argument
                is one of a database.
            InvalidDatabaseUrl: `url` names no database that can be opened.
            DriverMissing: The database driver is not installed; `HttpClientMissing`, if it is `httpx` for a server.
            DjangoMissing: Django is not installed, and `url` is not the address of a server.
            DatabaseNotConfigured: The project has no connection `using`.
            TimesNotInUtc: `USE_TZ` is off, or the entry of the connection has a `TIME_ZONE`.
        """
        options = ClientOptions(url, workspace, lease_seconds, using, migrate, idle_release_seconds, token)
        self.backend = open_backend(options, on_event_loop=True)
        self.sync = build_client_of_backend(self.backend)
        self._closed = False
        self._connections: list[Closable] = []
        self._executor = self.backend.create_thread_pool(self._connections)
        # A client that is dropped without `close` would keep its connections from the pool of the process.
        weakref.finalize(
            self, _close_threads_and_connections_in_background, self._executor, self._connections
        ).atexit = False

    @classmethod
    def open(
        cls,
        url: str | Path,
        *,
        workspace: str = constants.DEFAULT_WORKSPACE,
        lease_seconds: float = constants.LEASE_SECONDS,
        migrate: bool | None = None,
        idle_release_seconds: float | None = None,
        token: str | None = None,
    ) -> Self:
        """Open a database by path or URL, in a Django project or a plain script, or a server by its address.

        Args:
            url: `sqlite:///path`, a path, `postgresql://…`, or the address of a server, `https://…`.
            workspace: Name (slug) of the workspace whose sessions this client sees.
            lease_seconds: Time in seconds without a heartbeat after which a run counts as lost.
            migrate: Whether to create and update the tables. None: SQLite yes, PostgreSQL no.
            idle_release_seconds: Time in seconds after which an unused session is released automatically. None: never.
            token: Token for the server at `url`, from the settings of its site.

        Returns:
            A client. A SQLite file is created where there is none.

        Raises:
            InvalidInput: A time is not a positive number; or, for a server, there is no token, or an argument
                is one of a database.
            InvalidDatabaseUrl: `url` names no database that can be opened.
            DriverMissing: The database driver is not installed; `HttpClientMissing`, if it is `httpx` for a server.
            DjangoMissing: Django is not installed, and `url` is not the address of a server.
            ConnectionFailed: The PostgreSQL server refuses the connection.
        """
        return cls(
            url,
            workspace=workspace,
            lease_seconds=lease_seconds,
            migrate=migrate,
            idle_release_seconds=idle_release_seconds,
            token=token,
        )

    @property
    def checkpointer_state(self) -> CheckpointerState:
        """State that this client has in any case; `store` is the same object."""
        return self.sync.checkpointer_state

    @property
    @copy_docstring_from(SyncCheckpointer.store)
    def store(self) -> Store:
        return self.sync.store

    async def run_blocking(self, work: Callable[[], T]) -> T:
        """Run blocking work on the executor. Once begun it is finished, also when the caller is cancelled.

        Args:
            work: Function without arguments.

        Returns:
            What `work` returns.

        Raises:
            CheckpointerClosed: The client is closed.
        """
        if self._closed:
            raise CheckpointerClosed
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    async def close(self) -> None:
        """Release all sessions this client owns, and close its threads and connections. A second call does nothing.

        Raises:
            NotDurable: Versions that were written behind could not be saved; the sessions are released all the same.
        """
        if self._closed:
            return
        await self.run_blocking(self.sync.close)
        self._closed = True
        await asyncio.to_thread(_close_threads_and_connections, self._executor, self._connections)

    def __reduce__(self) -> NoReturn:
        raise TypeError(constants.CANNOT_BE_PICKLED)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    # ---- sessions

    @copy_docstring_from(SyncCheckpointer.start_session)
    async def start_session(
        self,
        session_id: str,
        user_message: str = "",
        system_prompt: str | None = None,
        *,
        agent: str = "",
        title: str | None = None,
        scratchpad_root: str | None = None,
        metadata: dict[str, Any] | None = None,
        labels: Iterable[str] = (),
        takeover: bool | str = False,
    ) -> OwningRun:
        description = NewSessionFields(user_message, agent, title, scratchpad_root, metadata, labels)
        flow = self.backend.start_session_flow(session_id, description, takeover=takeover)
        return await sync_and_async_flow_runners.run_flow_async(flow, self.run_blocking)

    def session(
        self,
        session_id: str,
        user_message: str = "",
        *,
        agent: str = "",
        title: str | None = None,
        scratchpad_root: str | None = None,
        metadata: dict[str, Any] | None = None,
        labels: Iterable[str] = (),
        registry: ToolRegistry | None = None,
        wait: bool = False,
        timeout: float | None = None,
        takeover: bool | str = False,
    ) -> SessionHandle:
        """Create a handle that starts or resumes the session in an `async with` block and releases it at its end.

            async with cp.session("order-17", "Where is my refund?", registry=registry) as session:
                await session.append(messages)

        Entering the block passes the gate as `resume` does and raises what `resume` raises, and `SessionBusy` also
        while another handle of this client is open on the session. An existing session keeps its description.

        Args:
            session_id: Identifier of the session, unique in the workspace: 1 to 255 characters.
            user_message: First message of the user; becomes the title where none is given.
            agent: Name of the agent, for lists and filters.
            title: Title of the session.
            scratchpad_root: Path of the agent's working directory, stored as text.
            metadata: JSON object stored with the session.
            labels: Labels of the session, for filters.
            registry: Tools of the agent. It stays as it is: the handle binds the tools to this session for itself.
            wait: Whether to wait at the gate until people have decided, instead of raising `ReviewRequired`.
            timeout: Longest wait at the gate in seconds. None waits without limit.
            takeover: True, or a reason for the audit trail, ends a run that still gives signs of life.

        Returns:
            The handle, not entered yet.
        """
        description = NewSessionFields(user_message, agent, title, scratchpad_root, metadata, labels)
        return SessionHandle(self, session_id, OpenOptions(description, registry, wait, timeout, takeover))

    release_session = derive_async_method(SyncCheckpointer.release_session)
    list_sessions = derive_async_method(SyncCheckpointer.list_sessions)
    finish_session = derive_async_method(SyncCheckpointer.finish_session)
    fork_session = derive_async_method(SyncCheckpointer.fork_session)
    export_session = derive_async_method(SyncCheckpointer.export_session)
    import_session = derive_async_method(SyncCheckpointer.import_session)
    delete_session = derive_async_method(SyncCheckpointer.delete_session)
    release_quarantine = derive_async_method(SyncCheckpointer.release_quarantine)

    # ---- versions

    save_checkpoint = derive_async_method(SyncCheckpointer.save_checkpoint)
    append_checkpoint = derive_async_method(SyncCheckpointer.append_checkpoint)
    save_phase = derive_async_method(SyncCheckpointer.save_phase)
    import_record = derive_async_method(SyncCheckpointer.import_record)
    load_latest = derive_async_method(SyncCheckpointer.load_latest)
    load = derive_async_method(SyncCheckpointer.load)
    list_checkpoints = derive_async_method(SyncCheckpointer.list_checkpoints)
    messages = derive_async_method(SyncCheckpointer.messages)
    delete_checkpoint = derive_async_method(SyncCheckpointer.delete_checkpoint)
    prune = derive_async_method(SyncCheckpointer.prune)

    # ---- tool-call log, for loops without a registry

    record_tool_call_issued = derive_async_method(SyncCheckpointer.record_tool_call_issued)
    record_tool_call_result = derive_async_method(SyncCheckpointer.record_tool_call_result)
    find_completed_call = derive_async_method(SyncCheckpointer.find_completed_call)
    pending_tool_calls = derive_async_method(SyncCheckpointer.pending_tool_calls)
    pending_decisions = derive_async_method(SyncCheckpointer.pending_decisions)

    # ---- resuming

    @copy_docstring_from(SyncCheckpointer.resume)
    async def resume(
        self,
        session_id: str,
        registry: ToolRegistry | None = None,
        *,
        wait: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109 - how long to wait for people, not for this code
        takeover: bool | str = False,
    ) -> ResumePoint:
        if registry is not None:
            registry.bind(self, session_id)
        flow = self.backend.resume_session_flow(session_id, wait=wait, timeout=timeout, takeover=takeover)
        return await sync_and_async_flow_runners.run_flow_async(flow, self.run_blocking)

    @copy_docstring_from(SyncCheckpointer.resume_run)
    async def resume_run(
        self,
        run_id: str | UUID,
        registry: ToolRegistry | None = None,
        *,
        wait: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109 - how long to wait for people, not for this code
        takeover: bool | str = False,
    ) -> ResumePoint:
        session_id = await self.run_blocking(partial(self.backend.get_session_id_of_run, run_id))
        return await self.resume(session_id, registry, wait=wait, timeout=timeout, takeover=takeover)

    preview_resume = derive_async_method(SyncCheckpointer.preview_resume)
    sweep_lost_runs = derive_async_method(SyncCheckpointer.sweep_lost_runs)

    async def workflow(self, session_id: str, workflow_id: str) -> Workflow:
        """Open the journal of a workflow, or create it, for one pass through its steps.

        Args:
            session_id: Identifier of a session this client owns.
            workflow_id: Identifier of the workflow in the session: 1 to 255 characters.

        Returns:
            The workflow, whose async `step` runs or replays one step.

        Raises:
            NotOwner: This client does not own the session.
            SchemaFromFuture: A newer version of this library wrote the journal; no step runs.
            CheckpointCorrupted: The journal cannot be read; no step runs.
        """
        step_log = await self.run_blocking(partial(self.backend.open_or_create_step_log, session_id, workflow_id))
        return Workflow(self.checkpointer_state, step_log, session_id, workflow_id, self.run_blocking)

    # ---- other agents

    pause_for_peers = derive_async_method(SyncCheckpointer.pause_for_peers)
    accept_response = derive_async_method(SyncCheckpointer.accept_response)

    @copy_docstring_from(SyncCheckpointer.take_paused)
    async def take_paused(
        self,
        session_id: str,
        registry: ToolRegistry | None = None,
        *,
        wait: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109 - how long to wait for people, not for this code
        takeover: bool | str = False,
    ) -> TakenTask:
        if registry is not None:
            registry.bind(self, session_id)
        flow = self.backend.take_paused_task_flow(session_id, wait=wait, timeout=timeout, takeover=takeover)
        return await sync_and_async_flow_runners.run_flow_async(flow, self.run_blocking)

    extend_deadline = derive_async_method(SyncCheckpointer.extend_deadline)

    @copy_docstring_from(SyncCheckpointer.cancel_paused)
    async def cancel_paused(self, session_id: str, *, tell: SendNotice | None = None, reason: str = "") -> Told:
        return await sync_and_async_flow_runners.run_flow_async(
            self.backend.cancel_paused_session_and_notify_agents_flow(session_id, tell=tell, reason=reason),
            self.run_blocking,
        )

    @copy_docstring_from(SyncCheckpointer.tell_peers)
    async def tell_peers(self, tell: SendNotice, *, limit: int = constants.BATCH_LIMIT) -> Told:
        return await sync_and_async_flow_runners.run_flow_async(
            self.backend.deliver_agent_notices_flow(tell, limit=limit), self.run_blocking
        )

    sweep_deadlines = derive_async_method(SyncCheckpointer.sweep_deadlines)
    list_paused = derive_async_method(SyncCheckpointer.list_paused)
    peer_calls = derive_async_method(SyncCheckpointer.peer_calls)

    # ---- decisions

    @copy_docstring_from(SyncCheckpointer.verify_call)
    async def verify_call(
        self,
        session_id: str,
        call_id: str,
        *,
        actor: Actor | str,
        step: int | None = None,
        attempt: int | None = None,
    ) -> str:
        target = DecisionTarget(session_id, call_id, 0, step, attempt)
        return await sync_and_async_flow_runners.run_flow_async(
            self.backend.verify_call_flow(target, actor), self.run_blocking
        )

    confirm_landed = derive_async_method(SyncCheckpointer.confirm_landed)
    mark_failed = derive_async_method(SyncCheckpointer.mark_failed)
    approve_rerun = derive_async_method(SyncCheckpointer.approve_rerun)
    withdraw_decision = derive_async_method(SyncCheckpointer.withdraw_decision)
    approve_call = derive_async_method(SyncCheckpointer.approve_call)
    edit_call = derive_async_method(SyncCheckpointer.edit_call)
    reject_call = derive_async_method(SyncCheckpointer.reject_call)
    respond_call = derive_async_method(SyncCheckpointer.respond_call)


def _close_threads_and_connections(executor: ThreadPoolExecutor, opened: list[Closable]) -> None:
    executor.shutdown(wait=True)
    for connection in opened:
        connection.close()


def _close_threads_and_connections_in_background(executor: ThreadPoolExecutor, opened: list[Closable]) -> None:
    threading.Thread(target=_close_threads_and_connections, args=(executor, opened), daemon=True).start()


async def check_pending_tool_calls(checkpointer: Checkpointer, session_id: str) -> list[dict[str, Any]]:
    """List the unfinished calls of a session, oldest first: issued, interrupted or awaiting approval.

    Args:
        checkpointer: Client of the workspace.
        session_id: Identifier of the session. One that does not exist has no calls.

    Returns:
        One dict per call, as `Checkpointer.pending_tool_calls` returns it.
    """
    return await checkpointer.pending_tool_calls(session_id)
