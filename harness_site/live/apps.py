from django.apps import AppConfig


class LiveConfig(AppConfig):
    name = "harness_site.live"
    label = "harness_live"
    verbose_name = "Harness: live updates"
