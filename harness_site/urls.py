from django.conf import settings
from django.urls import URLPattern, URLResolver, include, path

from checkpoints.server_or_database_url import API_PATH
from harness_site import home_and_health_views
from harness_site.api.otlp_traces import receive_traces
from harness_site.core.distinguish_site_from_project_requests import mark_views_of_site
from harness_site.core.non_atomic_views import exclude_views_from_atomic_requests
from harness_site.sessions.views import call_log_page_and_export

_pages = [
    path("", home_and_health_views.redirect_to_start_page_of_member, name="home"),
    path("health/", home_and_health_views.report_health, name="health"),
    path("health/live", home_and_health_views.report_liveness, name="health-live"),
    path("health/ready", home_and_health_views.report_readiness, name="health-ready"),
    path("words.js", home_and_health_views.show_words, name="words"),
    path("calls/", call_log_page_and_export.show_call_log, name="calls-log"),
    path("calls/export/", call_log_page_and_export.export_call_log, name="calls-export"),
]
urlpatterns: list[URLPattern | URLResolver] = [
    # First, because programs make far more requests than readers.
    path(f"{API_PATH.lstrip('/')}/", include("harness_site.api.urls")),
    path("", include((_pages, "harness"))),
    path("accounts/display/", include("harness_site.display.urls")),
    path("accounts/", include("harness_site.accounts.urls")),
    path("accounts/", include("harness_site.accounts.allauth_urls")),
    path("review/", include("harness_site.review.urls")),
    path("sessions/", include("harness_site.sessions.urls")),
    path("overview/", include("harness_site.overview.urls")),
    path("saved/", include("harness_site.saved_views.urls")),
    path("v1/", include("harness_site.api.openai_conversation_urls")),
    path("v1/traces", receive_traces, name="traces"),
    path("audit/", include("harness_site.audit.urls")),
    path("", include("harness_site.notifications.urls")),
    path("settings/", include("harness_site.accounts.workspace_settings_urls")),
    path("settings/", include("harness_site.installation.urls")),
]

if settings.DEBUG:
    urlpatterns.append(path("development/", include("harness_site.csp_violation_reports.urls")))

exclude_views_from_atomic_requests(urlpatterns)
mark_views_of_site(urlpatterns)

handler400 = "harness_site.error_pages.show_bad_request"
handler403 = "harness_site.error_pages.show_permission_denied"
handler404 = "harness_site.error_pages.show_page_not_found"
handler429 = "harness_site.accounts.views.sign_in_and_sign_out.show_too_many_attempts"
handler500 = "harness_site.error_pages.show_server_error"
