"""Times in ISO 8601 among the arguments of calls, as sentences say them: 2026-12-01 09:00 UTC."""

import re
from itertools import islice
from typing import Any, Final

#: Number of arguments among which a sentence may say a time.
_MAX_SEARCHED_ARGUMENTS: Final = 50
_ISO_TIME: Final = re.compile(
    r"(?P<day>\d{4}-\d{2}-\d{2})T(?P<minute>\d{2}:\d{2})(?::(?P<second>\d{2})(?:\.\d{1,9})?)?"
    r"(?P<zone>Z|[+-]\d{2}:\d{2})?"
)


def format_time_argument(value: Any) -> Any:
    """Return an argument that is a time in ISO 8601 with a space for the letter T, and with a zone if it has one.

    Seconds are left out if they are 0, and so are parts of a second. Another value is returned as it is.
    """
    match = _ISO_TIME.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        return value
    second, zone = match["second"] or "00", match["zone"] or ""
    offset = "" if zone in {"Z", "+00:00", "-00:00"} else zone
    return "".join(
        [
            f"{match['day']} {match['minute']}",
            "" if second == "00" else f":{second}",
            f" UTC{offset}" if zone else "",
        ]
    )


def format_times_in_sentence(sentence: str, args: Any) -> str:
    """Return the sentence of a call with readable times where it says those that are among its arguments."""
    values = islice(args.values(), _MAX_SEARCHED_ARGUMENTS) if isinstance(args, dict) else ()
    for value in values:
        formatted = format_time_argument(value)
        if formatted is not value:
            sentence = re.sub(rf"(?<![\w.-]){re.escape(value.strip())}(?![\w-]|[.:]\d)", formatted, sentence)
    return sentence
