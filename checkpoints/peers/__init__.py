"""Waiting for other agents: a run stores its state and its open calls in the database and stops, and any process
continues it when the responses have come.

This package defines the requests (`Join`, `PeerCall`), the outcomes of a response (`Accepted`, `Early`, `Duplicate`,
`Late`, `Cancelled`, `Foreign`, `Unknown`), the state a run continues with (`TakenTask`), and the notices to other
agents (`Notice`).
"""

from checkpoints.peers.agent_call_and_result_types import (
    Join,
    Notice,
    Paused,
    PeerCall,
    PeerResult,
    Swept,
    TakenJoin,
    TakenTask,
    Told,
)
from checkpoints.peers.response_acceptance_outcomes import (
    Accepted,
    Answer,
    Cancelled,
    Duplicate,
    Early,
    Foreign,
    Late,
    Unknown,
)

__all__ = [
    "Accepted",
    "Answer",
    "Cancelled",
    "Duplicate",
    "Early",
    "Foreign",
    "Join",
    "Late",
    "Notice",
    "Paused",
    "PeerCall",
    "PeerResult",
    "Swept",
    "TakenJoin",
    "TakenTask",
    "Told",
    "Unknown",
]
