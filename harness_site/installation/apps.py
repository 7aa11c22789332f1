from django.apps import AppConfig


class InstallationConfig(AppConfig):
    name = "harness_site.installation"
    label = "harness_installation"
    verbose_name = "Harness: installation"
