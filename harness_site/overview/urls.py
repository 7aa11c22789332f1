from django.urls import path

from harness_site.overview import views

app_name = "harness_overview"
urlpatterns = [path("", views.show_overview, name="overview")]
