"""The languages of the site, in a project that may have others."""

from __future__ import annotations

from typing import Final

from django.conf import settings
from django.http import HttpRequest
from django.utils import translation
from django.utils.translation.trans_real import parse_accept_lang_header

#: Languages with a catalogue in `harness_site/locale`, the one of the source first.
SITE_LANGUAGES: Final = (("en", "English"), ("de", "Deutsch"))
_CODES: Final = frozenset(code for code, _name in SITE_LANGUAGES)


def list_languages_to_choose() -> list[tuple[str, str]]:
    """List the languages of the site that the project has too: below `i18n_patterns` others have no addresses."""
    codes_of_project = dict(settings.LANGUAGES)
    return [(code, name) for code, name in SITE_LANGUAGES if code in codes_of_project]


def find_language_of_site(request: HttpRequest) -> str:
    """Return the language of the site for the language of this thread, otherwise the first that the browser asks for,
    otherwise English."""
    accepted = parse_accept_lang_header(request.headers.get("Accept-Language", ""))
    wanted = [translation.get_language() or "", *(language for language, _quality in accepted)]
    return next((code for code in (language.partition("-")[0] for language in wanted) if code in _CODES), "en")
