from django.apps import AppConfig


class NotificationsConfig(AppConfig):
    name = "harness_site.notifications"
    label = "harness_notifications"
    verbose_name = "Harness: notifications"
    default_auto_field = "django.db.models.BigAutoField"
