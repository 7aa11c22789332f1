from django.apps import AppConfig

from harness_site.send_email import mail_accepted


class NotificationsConfig(AppConfig):
    name = "harness_site.notifications"
    label = "harness_notifications"
    verbose_name = "Harness: notifications"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from harness_site.notifications.record_mail_server_acceptance import remember_mail_server_as_accepting

        mail_accepted.connect(remember_mail_server_as_accepting)
