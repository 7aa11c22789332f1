from django.urls import path

from harness_site.csp_violation_reports import views

app_name = "harness_csp_violation_reports"
urlpatterns = [
    path("policy/", views.list_csp_violations, name="policy-breaches"),
    path("policy/report/", views.receive_csp_report, name="policy-report"),
]
