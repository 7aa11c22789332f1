from django.conf import settings
from django.conf.urls.i18n import is_language_prefix_patterns_used
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone, translation
from django.utils.deprecation import MiddlewareMixin

from harness_site.accounts.safe_redirect_targets import is_path_below_site_prefix
from harness_site.display.display_preferences import get_chosen_language_or_empty
from harness_site.display.time_zones import get_reader_time_zone


class ReaderPreferencesMiddleware(MiddlewareMixin):
    """Activate the reader's time zone and language while a response is made. Streamed exports activate them again.

    Follows Django's `LocaleMiddleware`, which has activated the language of the browser. In a project that includes the
    site below `i18n_patterns`, it has activated the language of the address, which has to stay until the view is found.
    """

    def process_request(self, request: HttpRequest) -> None:
        # Pages of a project that includes the site have a time zone of their own.
        if is_path_below_site_prefix(request.path):
            timezone.activate(get_reader_time_zone(request))
            if not _do_urls_have_language_prefixes(request):
                _activate_chosen_language(request)

    def process_view(self, request: HttpRequest, *_view: object) -> None:
        if is_path_below_site_prefix(request.path) and _do_urls_have_language_prefixes(request):
            _activate_chosen_language(request)

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if is_path_below_site_prefix(request.path):
            timezone.deactivate()
        return response


def _do_urls_have_language_prefixes(request: HttpRequest) -> bool:
    urlconf = getattr(request, "urlconf", settings.ROOT_URLCONF)
    return bool(is_language_prefix_patterns_used(urlconf)[0])


def _activate_chosen_language(request: HttpRequest) -> None:
    if language := get_chosen_language_or_empty(request):
        translation.activate(language)
