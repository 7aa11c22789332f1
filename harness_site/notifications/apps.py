from django.apps import AppConfig


class NotificationsConfig(AppConfig):
    name = "harness_site.notifications"
    label = "notifications"
    verbose_name = "Notifications"
    default_auto_field = "django.db.models.BigAutoField"
