from django.urls import include, path

from harness_site import views

urlpatterns = [
    path("", views.home, name="home"),
    path("health/", views.health, name="health"),
    path("accounts/", include("harness_site.accounts.urls")),
    path("review/", include("harness_site.review.urls")),
    path("sessions/", include("harness_site.sessions.urls")),
]

handler400 = "harness_site.errors.bad_request"
handler403 = "harness_site.errors.permission_denied"
handler404 = "harness_site.errors.page_not_found"
handler500 = "harness_site.errors.server_error"
