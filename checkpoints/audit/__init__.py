"""Audit trail as a hash chain: every recorded event gets a number in it, so that later changes are detected."""

from checkpoints.audit.chain_verification import ChainFlaw, ChainVerdict, parse_anchor, seal_and_verify_chain
from checkpoints.audit.number_and_chain_events import seal_events, seal_events_of_all_workspaces

__all__ = [
    "ChainFlaw",
    "ChainVerdict",
    "parse_anchor",
    "seal_and_verify_chain",
    "seal_events",
    "seal_events_of_all_workspaces",
]
