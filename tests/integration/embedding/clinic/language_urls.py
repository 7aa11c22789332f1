"""The clinic with an address of the site for each language."""

from django.conf import settings
from django.conf.urls.i18n import i18n_patterns
from django.urls import include, path

urlpatterns = i18n_patterns(
    path("harness/", include("harness_site.urls")),
    prefix_default_language=settings.PREFIX_DEFAULT_LANGUAGE,
)
