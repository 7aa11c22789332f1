from django.urls import path

from harness_site.audit import views

urlpatterns = [
    path("", views.audit, name="audit"),
    path("verify/", views.verify, name="audit-verify"),
    path("export/", views.export, name="audit-export"),
]
