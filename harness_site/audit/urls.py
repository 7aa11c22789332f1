from django.urls import path

from harness_site.audit import views

app_name = "harness_audit"
urlpatterns = [
    path("", views.show_audit_log, name="audit"),
    path("verify/", views.seal_and_verify_audit_log, name="audit-verify"),
    path("export/", views.export_audit_log, name="audit-export"),
]
