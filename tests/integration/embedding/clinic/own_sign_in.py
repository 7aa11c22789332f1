"""A URL configuration in which django-allauth has pages of its own after those of the site."""

from django.urls import include, path

urlpatterns = [path("harness/", include("harness_site.urls")), path("accounts/", include("allauth.account.urls"))]
