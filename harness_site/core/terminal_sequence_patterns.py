"""Control sequences of terminals (ECMA-48) as parts of regular expressions: introducer, parameters, final byte.

What rendering leaves out of masked text, the masking of secrets has to ignore. Otherwise a secret that a sequence
divides is not found, and its parts stand beside each other on the page.
"""

from __future__ import annotations

from typing import Final

ESCAPE_INTRODUCER: Final = r"\x1b\["
#: `ESC [`, or the one character that stands for both.
INTRODUCER: Final = rf"(?:{ESCAPE_INTRODUCER}|\x9b)"
PARAMETER: Final = "[0-?]"
INTERMEDIATE: Final = "[ -/]"
FINAL: Final = "[@-~]"
#: Largest number of characters of the parameters in text that is masked; what is longer is no sequence there.
MAX_PARAMETER_LENGTH: Final = 60
SHORT_PARAMETERS: Final = f"{PARAMETER}{{0,{MAX_PARAMETER_LENGTH}}}{INTERMEDIATE}{{0,4}}"
