from checkpoints import configure_django_on_import as configure_django_on_import
from checkpoints.constants import DEFAULT_WORKSPACE
from checkpoints.models.audit import AuditChain, AuditEvent
from checkpoints.models.checkpoint import Checkpoint
from checkpoints.models.decision import Decision
from checkpoints.models.framework_state_blobs_and_writes import Blob, FrameworkState, FrameworkWrite
from checkpoints.models.imported_file import ImportedFile
from checkpoints.models.pauses_for_other_agents import Join, PausedTask
from checkpoints.models.peer_call_and_early_response import EarlyResponse, PeerCall
from checkpoints.models.run import Run
from checkpoints.models.segment_and_message import Message, Segment
from checkpoints.models.session import Session
from checkpoints.models.tool_calls_and_results import CallValue, LateResult, ToolCall
from checkpoints.models.workflow_and_step import Workflow, WorkflowStep
from checkpoints.models.workspace import Workspace
from checkpoints.models.workspace_integrity_check import IntegrityCheck

__all__ = [
    "DEFAULT_WORKSPACE",
    "AuditChain",
    "AuditEvent",
    "Blob",
    "CallValue",
    "Checkpoint",
    "Decision",
    "EarlyResponse",
    "FrameworkState",
    "FrameworkWrite",
    "ImportedFile",
    "IntegrityCheck",
    "Join",
    "LateResult",
    "Message",
    "PausedTask",
    "PeerCall",
    "Run",
    "Segment",
    "Session",
    "ToolCall",
    "Workflow",
    "WorkflowStep",
    "Workspace",
]
