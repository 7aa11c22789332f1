from django.urls import path

from harness_site.development import policy

urlpatterns = [
    path("policy/", policy.breaches, name="policy-breaches"),
    path("policy/report/", policy.report, name="policy-report"),
]
