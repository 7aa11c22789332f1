from django.apps import AppConfig


class HarnessSiteConfig(AppConfig):
    name = "harness_site"
    verbose_name = "Harness"
