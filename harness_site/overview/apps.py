from django.apps import AppConfig


class OverviewConfig(AppConfig):
    name = "harness_site.overview"
    label = "harness_overview"
    verbose_name = "Harness: overview"
