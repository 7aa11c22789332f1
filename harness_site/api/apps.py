from django.apps import AppConfig


class ApiConfig(AppConfig):
    name = "harness_site.api"
    label = "harness_api"
    verbose_name = "Harness: HTTP API"
