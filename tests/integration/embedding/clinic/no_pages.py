"""A URL configuration that leaves the site out."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
