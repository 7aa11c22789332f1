"""The audit trail as a chain: what was recorded gets a place in it, and a change of what has one is noticed."""

from checkpoints.integrity.sealing import seal, seal_all
from checkpoints.integrity.verifying import Flaw, Verdict, parse_anchor, verify

__all__ = ["Flaw", "Verdict", "parse_anchor", "seal", "seal_all", "verify"]
