from django.urls import path

from harness_site.display import views

app_name = "harness_display"
urlpatterns = [path("", views.edit_display, name="display")]
