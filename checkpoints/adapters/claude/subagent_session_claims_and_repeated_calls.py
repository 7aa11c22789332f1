"""Claims of the sessions of a main agent and its subagents, and calls of dead subagents that a new one makes again.

Claude Code starts a subagent again as a new one, whose session knows nothing of the first one's calls. So the main
agent's session is claimed for each guarded call below it, and its claim passes the gates of all subagents. A call equal
to one that a dead subagent has made, and no transcript has answered, is that call requested again.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import Any

from checkpoints.adapters.claude.transcript_keys import TranscriptKey
from checkpoints.adapters.session_claims import SessionClaims
from checkpoints.calls import call_queries
from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.enums import CallStatus
from checkpoints.exceptions import SessionFinished
from checkpoints.formats.canonical_json import to_canonical_json
from checkpoints.formats.digests import digest_text
from checkpoints.framework_states import state_store, write_transcript_version
from checkpoints.framework_states.write_transcript_version import VersionContent
from checkpoints.models import Session
from checkpoints.sessions.new_session_fields import NewSessionFields
from checkpoints.store.replayed_call_matching import CallFingerprint, get_call_fingerprint
from checkpoints.sync_client import SyncCheckpointer
from checkpoints.tools.foreign_tool_guard import ToolPolicies

#: Calls of dead subagents by fingerprint, each with the session and the id under which it is logged.
_OpenCalls = defaultdict[CallFingerprint, list[tuple[str, str]]]
_CONTINUED_STATUSES = (CallStatus.COMPLETED, CallStatus.RERUN_APPROVED)


class SubagentSessionClaims:
    """Claims of the sessions of main agents and their subagents. Safe to use from many threads."""

    def __init__(
        self,
        checkpointer: SyncCheckpointer,
        claims: SessionClaims,
        description: NewSessionFields,
        policies: ToolPolicies,
    ) -> None:
        """Create the claims.

        Args:
            checkpointer: Blocking client.
            claims: Claims of the client.
            description: Description of new sessions.
            policies: Options of tools by name. A call of a tool with the policy `call` continues no other one.
        """
        self._checkpointer, self._claims, self._description = checkpointer, claims, description
        self._policies = policies
        self._lock = threading.Lock()
        self._open: dict[str, _OpenCalls] = {}
        #: Calls of dead subagents that this turn of a main agent has continued.
        self._continued: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)

    def claim_sessions_and_choose_one_to_log_call(self, key: TranscriptKey, tool: str, args: dict[str, Any]) -> str:
        """Claim the sessions for one call, and return the one in which to log it; `end_call_claim` ends that.

        Raises what `SessionClaims.claim_session_and_count_running_call` raises, also about a subagent of the same main
        agent.
        """
        self._claims.claim_session_and_count_running_call(key.root_session_id, self._description)
        try:
            with self._lock:
                if key.root_session_id not in self._open:
                    self._open[key.root_session_id] = self._pass_gates_and_list_continuable_calls(key)
            session_id = self._choose_session_and_take_continuable_call(
                key, (tool, digest_text(to_canonical_json(args)))
            )
            if session_id != key.root_session_id:
                self._claims.claim_session_and_count_running_call(session_id, self._description)
                self._store_parent_session_if_unset(session_id, key.root_session_id)
        except BaseException:
            self._claims.end_call_claim(key.root_session_id)
            raise
        return session_id

    def end_call_claim(self, key: TranscriptKey, session_id: str) -> None:
        """End the use of the sessions by one call."""
        if session_id != key.root_session_id:
            self._claims.end_call_claim(session_id)
        self._claims.end_call_claim(key.root_session_id)

    def release_sessions_of_agent(self, key: TranscriptKey, *, closes_calls: bool = False) -> None:
        """Release the session of an agent; if it is the main agent, also those whose calls it has continued.

        Args:
            key: Key of the agent's transcript.
            closes_calls: Whether the turn has ended, so that the model has read the results of the continued calls.
        """
        self._claims.release_session_now_or_when_idle(key.session_id)
        if key.subpath:
            return
        with self._lock:
            self._open.pop(key.root_session_id, None)
            continued = self._continued.pop(key.root_session_id, [])
        for session_id, call_id in continued:
            self._claims.release_session_now_or_when_idle(session_id)
            if closes_calls:
                content = VersionContent(None, write_transcript_version.build_empty_call_results([call_id]))
                state_store.write_version_of_transcript_if_changed(self._checkpointer.store, session_id, content)

    def _choose_session_and_take_continuable_call(self, key: TranscriptKey, fingerprint: CallFingerprint) -> str:
        """Return the session that has the call of another subagent which this one is, or else the agent's own."""
        if not self._policies.matches_calls_by_arguments(fingerprint[0]):
            return key.session_id
        with self._lock:
            calls = self._open[key.root_session_id][fingerprint]
            other = next((call for call in calls if call[0] != key.session_id), None)
            if other is None:
                return key.session_id
            calls.remove(other)
            self._continued[key.root_session_id].append(other)
            return other[0]

    def _pass_gates_and_list_continuable_calls(self, key: TranscriptKey) -> _OpenCalls:
        store, open_calls = self._checkpointer.store, _OpenCalls(list)
        sessions = (
            Session.objects.using(store.using)
            .filter(workspace_id=store.workspace_id, parent_session_id=key.root_session_id)
            .exclude(parent_session_id="")  # the condition of the index
            .filter(tool_calls__answered_version__isnull=True)
        )
        with database_operation(store.using, writes=False):
            found = list(sessions.order_by("pk").distinct().values_list("pk", "session_id"))
        for pk, session_id in found:
            is_owned = store.find_owned_session(session_id) is not None  # by a subagent of this process
            if is_owned or not any(
                call.has_side_effects for call in call_queries.list_unanswered_tool_calls(store, pk)
            ):
                continue
            try:
                with self._claims.claim_session_for_block(session_id):
                    pass
            except SessionFinished:
                continue
            finally:
                self._claims.release_session_now_or_when_idle(session_id)
            for call in call_queries.list_unanswered_tool_calls(store, pk):
                if call.status in _CONTINUED_STATUSES:
                    open_calls[get_call_fingerprint(call)].append((session_id, call.call_id))
        return open_calls

    def _store_parent_session_if_unset(self, session_id: str, parent_id: str) -> None:
        store = self._checkpointer.store
        sessions = Session.objects.using(store.using).filter(workspace_id=store.workspace_id, parent_session_id="")
        with database_operation(store.using):
            sessions.filter(session_id=session_id).update(parent_session_id=parent_id)
