"""Audit trail as a hash chain: every recorded event gets a number in it, so that later changes are detected."""

from checkpoints.audit.number_and_chain_events import seal_events_of_all_workspaces, seal_events_of_workspace
from checkpoints.audit.seal_and_verify_chain import (
    ChainFlaw,
    ChainVerdict,
    parse_anchor,
    seal_and_verify_chain_and_store_result,
)

__all__ = [
    "ChainFlaw",
    "ChainVerdict",
    "parse_anchor",
    "seal_and_verify_chain_and_store_result",
    "seal_events_of_all_workspaces",
    "seal_events_of_workspace",
]
