"""Pure functions between Python values and their stored form. Nothing here touches a database."""

from checkpoints.formats.canonical_json import parse_json, parse_json_or_return_text, to_canonical_json
from checkpoints.formats.non_validating_dataclass_decoder import load_as

__all__ = ["load_as", "parse_json", "parse_json_or_return_text", "to_canonical_json"]
