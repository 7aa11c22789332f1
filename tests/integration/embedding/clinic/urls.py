from django.contrib import admin
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.urls import include, path


@login_not_required
def front_page(request: HttpRequest) -> HttpResponse:
    return HttpResponse("The clinic.")


urlpatterns = [
    path("", front_page, name="home-of-the-clinic"),
    path("prices/", lambda request: HttpResponse("Free."), name="prices"),
    path("admin/", admin.site.urls),
    path("harness/", include("harness_site.urls")),
]
