from django.apps import AppConfig


class SessionsConfig(AppConfig):
    name = "harness_site.sessions"
    label = "harness_sessions"
    verbose_name = "Harness: sessions"
