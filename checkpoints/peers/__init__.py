"""Waiting for other agents: a run stops with its state and its open calls in the database, and whichever process is
there when the answers have come goes on.

The words of that: what is waited for (`Join`, `PeerCall`), what an answer is told (`Accepted`, `Early`, `Duplicate`,
`Late`, `Cancelled`, `Foreign`, `Unknown`), what a run gets when it goes on (`TakenTask`), and what other agents have to
be told (`Notice`).
"""

from checkpoints.peers.answers import Accepted, Answer, Cancelled, Duplicate, Early, Foreign, Late, Unknown
from checkpoints.peers.values import Join, Notice, Paused, PeerCall, PeerResult, Swept, TakenJoin, TakenTask, Told

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
