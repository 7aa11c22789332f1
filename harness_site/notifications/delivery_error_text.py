"""Descriptions of delivery errors for admins."""

import http.client
from typing import Final

from django.utils.translation import gettext_noop

from harness_site.core.translatable_stored_sentence import StoredSentence
from harness_site.mail_and_connection_error_sentences import build_connection_error_sentence
from harness_site.notifications.safe_http import AddressRefused

_MAX_ERROR_LENGTH: Final = 500


def build_delivery_error_sentence(error: Exception) -> StoredSentence:
    """Describe a delivery error in one sentence."""
    if isinstance(error, AddressRefused):
        return StoredSentence.build(error.args[0])
    if isinstance(error, http.client.HTTPException) and not isinstance(error, OSError):
        sentence = gettext_noop("The answer was not HTTP: %(answer)s")
        return StoredSentence.build(sentence, answer=str(error)[:_MAX_ERROR_LENGTH])
    return build_connection_error_sentence(error)
