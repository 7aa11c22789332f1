from django.urls import path

from harness_site.notifications.views import (
    confirm_notification_address,
    delivery_pages,
    email_notification_preferences,
    webhook_settings,
)

app_name = "harness_notifications"
urlpatterns = [
    path(
        "accounts/notifications/",
        email_notification_preferences.edit_notification_preferences,
        name="notification-preferences",
    ),
    path(
        "accounts/notifications/confirm/",
        confirm_notification_address.send_confirmation_link_again,
        name="send-confirmation",
    ),
    path(
        "accounts/notifications/confirm/<str:token>/",
        confirm_notification_address.show_or_confirm_email_address,
        name="confirm-address",
    ),
    path("settings/notifications/", webhook_settings.list_webhooks, name="webhooks"),
    path("settings/notifications/create/", webhook_settings.create_webhook, name="webhook-create"),
    path("settings/notifications/<int:pk>/edit/", webhook_settings.edit_webhook, name="webhook-edit"),
    path("settings/notifications/<int:pk>/test/", webhook_settings.send_webhook_test, name="webhook-test"),
    path("settings/notifications/<int:pk>/pause/", webhook_settings.pause_webhook, name="webhook-pause"),
    path("settings/notifications/<int:pk>/resume/", webhook_settings.resume_webhook, name="webhook-resume"),
    path("settings/notifications/<int:pk>/delete/", webhook_settings.delete_webhook, name="webhook-delete"),
    path("settings/notifications/log/", delivery_pages.show_delivery_log, name="delivery-log"),
    path("settings/notifications/log/<uuid:pk>/again/", delivery_pages.requeue_delivery, name="delivery-again"),
]
