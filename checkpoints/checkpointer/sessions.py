"""Beginning, ending, copying and removing sessions."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

from checkpoints import flows
from checkpoints.files import exporting, importing
from checkpoints.files.exporting import ExportedFile
from checkpoints.files.importing import ImportedSession
from checkpoints.models import Run
from checkpoints.queries import listing
from checkpoints.resuming import gate, starting
from checkpoints.resuming.actors import Actor, as_actor
from checkpoints.resuming.starting import Description
from checkpoints.saving import forking, pruning
from checkpoints.saving.pruning import Removed
from checkpoints.saving.store import Store
from checkpoints.session_handle import Opening, SyncSessionHandle
from checkpoints.tools.registry import ToolRegistry


class Sessions:
    store: Store

    def start_session(
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
    ) -> Run:
        """Create the session, or go on with an unfinished one through the same gate as `resume`, and own it.

        `user_message` becomes the title where none is given; `system_prompt` belongs to the transcript and is not
        kept here. An existing session keeps its description. `takeover` ends a run that still gives signs of life:
        True, or why, in a sentence for the audit trail. What earlier runs left undecided is settled by the verify
        hooks of bound registries; what remains raises `ReviewRequired` or `ApprovalRequired`, and the session is
        released. Raises `InvalidIdentifier`, `SessionBusy`, `SessionFinished`.
        """
        description = Description(user_message, agent, title, scratchpad_root, metadata, labels)
        return flows.drive(gate.start_flow(self.store, session_id, description, takeover=takeover))

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
    ) -> SyncSessionHandle:
        """Start or resume the session in a `with` block, and release it at the end of the block:

            with cp.session("order-17", "Where is my refund?", registry=registry) as session:
                session.append(messages)

        It passes the gate as `resume` does (`wait` and `timeout` in seconds are those of `resume`). An existing session
        keeps its description. `registry` stays as it is: the handle binds its tools to this session for itself.
        Entering the block raises what `resume` raises, and `SessionBusy` also while another handle of this checkpointer
        is open on the session.
        """
        description = Description(user_message, agent, title, scratchpad_root, metadata, labels)
        return SyncSessionHandle(self, session_id, Opening(description, registry, wait, timeout, takeover))

    def release_session(self, session_id: str) -> bool:
        """Give up one session, so that another process can go on with it at once; the checkpointer stays open.

        What waits to be written behind is written first, and what was issued and has no outcome becomes interrupted.
        Returns whether this checkpointer owned the session; releasing one that it does not own does nothing. Raises
        `NotDurable`, after the release, for what could not be written.
        """
        return starting.release_session(self.store, session_id)

    def list_sessions(
        self,
        *,
        status: str | None = None,
        agent: str | None = None,
        label: str | None = None,
        updated_before: datetime | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> list[dict[str, Any]]:
        """Sessions of the workspace, newest activity first: session_id, title, agent, status, finished, labels,
        metadata, version, message_count, budget_spent_usd, total_tokens, created_at, updated_at, owner, cursor.

        `owner` is None or the run that has the session: run_id, host, pid, last_seen, lease_ends, alive. `after` is the
        `cursor` of the last entry of the page before. Raises `InvalidInput`.
        """
        return listing.list_sessions(
            self.store,
            status=status,
            agent=agent,
            label=label,
            updated_before=updated_before,
            after=after,
            limit=limit,
        )

    def finish_session(self, session_id: str, status: str, result: Any = None) -> None:
        """End the session as `completed`, `failed` or `cancelled`. Its result is what a later resume returns.

        Raises `ReviewRequired` while a call is undecided, except for `cancelled`.
        """
        starting.finish(self.store, session_id, status, result)

    def fork_session(
        self,
        session_id: str,
        new_session_id: str,
        *,
        version: int | None = None,
        actor: Actor | str | None = None,
    ) -> int:
        """Open a new session that goes on from `version` (None: the newest) of another one. Returns its version, 1.

        No message is copied. Calls that had an effect come along, so that the fork replays them instead of repeating
        the effect. A person or token that asks for it, named by `actor`, stands in the audit trail and has to be one
        that may decide. Raises `SessionNotFound`, `VersionNotFound`, `SessionExists`, `NotPermitted`.
        """
        if actor is None:
            return forking.fork(self.store, session_id, new_session_id, version=version)
        by = as_actor(actor)
        by.require_deciding("fork a session")
        return forking.fork(self.store, session_id, new_session_id, version=version, actor=by.name, actor_kind=by.kind)

    def export_session(self, session_id: str, path: str | Path) -> ExportedFile:
        """Write a session with everything of it to one file, at once or not at all. Raises `SessionNotFound`,
        `FileNotWritten`."""
        return exporting.export(self.store, session_id, path)

    def import_session(self, path: str | Path, *, session_id: str | None = None) -> ImportedSession:
        """Take a session over from a file that `export_session` wrote, in this database or another one.

        What may have happened since is undecided, as after a crash. Raises `FileNotReadable`, `FileDamaged`,
        `SchemaFromFuture`, `WrongSession` where it is not `session_id`, `WrongWorkspace`, `SessionExists`,
        `ImportConflict`; then nothing was imported.
        """
        return importing.import_file(self.store, path, session_id=session_id)

    def delete_session(self, session_id: str, *, dry_run: bool = False) -> Removed:
        """Remove a session and everything of it. Raises `StillNeeded` while a run drives it or a person has to
        decide."""
        return pruning.delete_session(self.store, session_id, dry_run=dry_run)
