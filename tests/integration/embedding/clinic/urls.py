"""The clinic with the site, and pages of its own beside it and below its prefix."""

from allauth.account.views import account_inactive
from django.contrib import admin
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.urls import include, path
from django.utils import timezone, translation


@login_not_required
def front_page(request: HttpRequest) -> HttpResponse:
    return HttpResponse("The clinic.")


def show_time_zone_and_language(request: HttpRequest) -> HttpResponse:
    return HttpResponse(f"{timezone.get_current_timezone_name()} {translation.get_language()}")


def show_script(request: HttpRequest) -> HttpResponse:
    return HttpResponse("<p id='hours'></p><script>document.getElementById('hours').textContent = '8–17'</script>")


def show_own_policy(request: HttpRequest) -> HttpResponse:
    return HttpResponse("Private.", headers={"Content-Security-Policy": "script-src 'self'"})


urlpatterns = [
    path("", front_page, name="home-of-the-clinic"),
    path("prices/", lambda request: HttpResponse("Free."), name="prices"),
    path("admin/", admin.site.urls),
    path("own-policy/", show_own_policy),
    path("zone/", show_time_zone_and_language),
    path("inactive/", account_inactive),  # of django-allauth, as in the site
    path("harness/opening-hours/", show_script),
    path("harness/", include("harness_site.urls")),
]
