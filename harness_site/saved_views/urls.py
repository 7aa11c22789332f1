from django.urls import path

from harness_site.saved_views import views

app_name = "harness_saved"
urlpatterns = [
    path("<str:page>/", views.create_saved_view, name="keep-view"),
    path("<str:page>/update/", views.update_or_replace_saved_view, name="update-view"),
    path("views/<int:pk>/rename/", views.rename_saved_view, name="rename-view"),
    path("views/<int:pk>/remove/", views.delete_saved_view, name="remove-view"),
]
