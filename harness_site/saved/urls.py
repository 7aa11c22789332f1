from django.urls import path

from harness_site.saved import views

urlpatterns = [
    path("<str:page>/", views.keep, name="keep-view"),
    path("views/<int:pk>/remove/", views.remove, name="remove-view"),
]
