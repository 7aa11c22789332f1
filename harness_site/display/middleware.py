from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone, translation
from django.utils.deprecation import MiddlewareMixin

from harness_site.accounts.safe_redirect_targets import is_path_of_site
from harness_site.display.display_preferences import get_reader_language
from harness_site.display.time_zones import get_reader_time_zone


class ReaderPreferencesMiddleware(MiddlewareMixin):
    """Activate the reader's time zone and language while a response is made. Streamed exports activate them again.

    Follows Django's `LocaleMiddleware`, which has activated the language of the browser.
    """

    def process_request(self, request: HttpRequest) -> None:
        # Pages of a project that includes the site have a time zone of their own.
        if is_path_of_site(request.path):
            timezone.activate(get_reader_time_zone(request))
            if language := get_reader_language(request):
                translation.activate(language)

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if is_path_of_site(request.path):
            timezone.deactivate()
        return response
