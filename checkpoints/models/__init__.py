from checkpoints.models.audit import AuditEvent
from checkpoints.models.checkpoint import Checkpoint
from checkpoints.models.decision import Decision
from checkpoints.models.run import Run
from checkpoints.models.session import Session
from checkpoints.models.tool_call import LateResult, ToolCall
from checkpoints.models.transcript import Message, Segment
from checkpoints.models.workspace import DEFAULT_WORKSPACE, Workspace

__all__ = [
    "DEFAULT_WORKSPACE",
    "AuditEvent",
    "Checkpoint",
    "Decision",
    "LateResult",
    "Message",
    "Run",
    "Segment",
    "Session",
    "ToolCall",
    "Workspace",
]
