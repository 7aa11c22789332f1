"""Pure functions between Python values and what is stored. Nothing here touches a database."""

from checkpoints.serde.canonical import canonical, parse, parse_or_text
from checkpoints.serde.rebuild import load_as

__all__ = ["canonical", "load_as", "parse", "parse_or_text"]
