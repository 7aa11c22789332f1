from django.apps import AppConfig


class AuditConfig(AppConfig):
    name = "harness_site.audit"
    label = "harness_audit"
    verbose_name = "Harness: audit trail"
