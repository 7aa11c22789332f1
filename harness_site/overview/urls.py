from django.urls import path

from harness_site.overview import views

urlpatterns = [path("", views.overview, name="overview")]
