from typing import Any, Final

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.locale import LocaleMiddleware
from django.utils import timezone, translation
from django.utils.deprecation import MiddlewareMixin

from harness_site.core.distinguish_site_from_project_requests import do_urls_have_language_prefixes, is_site_request
from harness_site.core.management_command_as_typed import is_standalone_site
from harness_site.core.site_languages import find_language_of_site
from harness_site.display.display_preferences import get_chosen_language_or_empty
from harness_site.display.time_zones import get_reader_time_zone

#: Attribute of a request: the language that the thread had before.
_LANGUAGE_BEFORE: Final = "_harness_language_before"


class SiteLanguageMiddleware(LocaleMiddleware):
    """Django's `LocaleMiddleware` for the site's own pages; those of a project that includes it keep their language.

    A project may have languages that the site does not have. Then its pages are in another one that the browser asks
    for, or in English; below `i18n_patterns` the address decides.
    """

    def process_request(self, request: HttpRequest) -> None:
        if is_site_request(request):
            vars(request)[_LANGUAGE_BEFORE] = translation.get_language()
            super().process_request(request)
            if not do_urls_have_language_prefixes(request):
                translation.activate(find_language_of_site(request))

    def process_response(self, request: HttpRequest, response: Any) -> Any:
        if not is_site_request(request):
            return response
        response = super().process_response(request, response)
        # Nobody else may set the language of the next page of a project.
        if not is_standalone_site() and (language := vars(request).get(_LANGUAGE_BEFORE)):
            translation.activate(language)
        return response


class ReaderPreferencesMiddleware(MiddlewareMixin):
    """Activate the reader's time zone and language while a response is made. Streamed exports activate them again.

    Follows `SiteLanguageMiddleware`, which has activated the language of the browser. In a project that includes the
    site below `i18n_patterns`, it has activated the language of the address, which has to stay until the view is found.
    """

    def process_request(self, request: HttpRequest) -> None:
        # Pages of a project that includes the site have a time zone of their own.
        if is_site_request(request):
            timezone.activate(get_reader_time_zone(request))
            if not do_urls_have_language_prefixes(request):
                _activate_chosen_language(request)

    def process_view(self, request: HttpRequest, *_view: object) -> None:
        if is_site_request(request) and do_urls_have_language_prefixes(request):
            _activate_chosen_language(request)

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if is_site_request(request):
            timezone.deactivate()
        return response


def _activate_chosen_language(request: HttpRequest) -> None:
    if language := get_chosen_language_or_empty(request):
        translation.activate(language)
