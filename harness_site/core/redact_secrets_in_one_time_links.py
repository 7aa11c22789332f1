"""Secrets in the paths of links that work once, which a log must not hold while they may still work."""

from __future__ import annotations

import copy
import logging
import re
from typing import Any, Final

#: Paths of the first account, of links that sign in, of invitations, and of confirmations of an address; also in the
#: query of another address, such as that of the sign-in, where slashes may be encoded.
_LINKS: Final = re.compile(
    r"((?:/|%2F)accounts(?:/|%2F)(?:first|link|invitations|notifications(?:/|%2F)confirm)(?:/|%2F))"
    r"(?:(?!%2F)[^/?&\s\"'])+",
    re.IGNORECASE,
)


def hide_secrets_in_one_time_links(text: str) -> str:
    """Replace the secret of each such path in `text` by an ellipsis."""
    return _LINKS.sub(r"\1…", text)


class LinkSecretsFilter(logging.Filter):
    """Filter that hides these secrets in the arguments of a log record."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(
                hide_secrets_in_one_time_links(each) if isinstance(each, str) else each for each in record.args
            )
        return True


def copy_config_with_access_log_filter(config: dict[str, Any], log_level: str) -> dict[str, Any]:
    """Return a copy of the logging configuration of uvicorn with this level of its own entries, whose access log has
    the filter."""
    changed = copy.deepcopy(config)
    changed["loggers"]["uvicorn.error"]["level"] = log_level.upper()
    changed["filters"] = {"redact_link_secrets": {"()": LinkSecretsFilter}}
    changed["handlers"]["access"]["filters"] = ["redact_link_secrets"]
    return changed
