"""Audit trail as a hash chain: every recorded event gets a number in it, so that later changes are detected."""

from checkpoints.audit.chain_verification import ChainFlaw, ChainVerdict, parse_anchor, verify_chain
from checkpoints.audit.chain_writer import seal_all_workspaces, seal_events

__all__ = ["ChainFlaw", "ChainVerdict", "parse_anchor", "seal_all_workspaces", "seal_events", "verify_chain"]
