"""Descriptions of delivery errors for admins."""

import http.client
from typing import Final

from django.utils.translation import gettext as _

from harness_site.mail_transport import describe_connection_error
from harness_site.notifications.safe_http import AddressRefused

_MAX_ERROR_LENGTH: Final = 500


def format_delivery_error(error: Exception) -> str:
    """Describe a delivery error in one sentence."""
    if isinstance(error, AddressRefused):
        return str(error)[:_MAX_ERROR_LENGTH]
    if isinstance(error, http.client.HTTPException) and not isinstance(error, OSError):
        return (_("The answer was not HTTP: %(answer)s") % {"answer": error})[:_MAX_ERROR_LENGTH]
    return describe_connection_error(error)
