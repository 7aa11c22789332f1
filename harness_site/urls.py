from django.conf import settings
from django.urls import include, path

from harness_site import views
from harness_site.sessions import call_log

_pages = [
    path("", views.home, name="home"),
    path("health/", views.health, name="health"),
    path("calls/", call_log.log, name="calls-log"),
]
urlpatterns = [
    path("", include(_pages)),
    path("accounts/", include("harness_site.accounts.urls")),
    path("accounts/", include("harness_site.accounts.allauth_urls")),
    path("review/", include("harness_site.review.urls")),
    path("sessions/", include("harness_site.sessions.urls")),
    path("overview/", include("harness_site.overview.urls")),
    path("saved/", include("harness_site.saved.urls")),
    path("audit/", include("harness_site.audit.urls")),
    path("", include("harness_site.notifications.urls")),
    path("settings/", include("harness_site.accounts.settings_urls")),
]

if settings.DEBUG:
    urlpatterns.append(path("development/", include("harness_site.development.urls")))

handler400 = "harness_site.errors.bad_request"
handler403 = "harness_site.errors.permission_denied"
handler404 = "harness_site.errors.page_not_found"
handler429 = "harness_site.accounts.views.entrance.too_many"
handler500 = "harness_site.errors.server_error"
