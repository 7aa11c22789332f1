from django.urls import path

from harness_site.development import csp_reports

app_name = "harness_development"
urlpatterns = [
    path("policy/", csp_reports.list_csp_violations, name="policy-breaches"),
    path("policy/report/", csp_reports.receive_csp_report, name="policy-report"),
]
