"""The clinic with an address of the site for each language."""

import sys

from django.conf.urls.i18n import i18n_patterns
from django.urls import include, path

urlpatterns = i18n_patterns(
    path("harness/", include("harness_site.urls")),
    prefix_default_language="all" in sys.argv,
)
