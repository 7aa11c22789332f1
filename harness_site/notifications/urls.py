from django.urls import path

from harness_site.notifications.views import deliveries, preferences, webhooks

urlpatterns = [
    path("accounts/notifications/", preferences.preferences, name="notification-preferences"),
    path("accounts/notifications/confirm/<str:token>/", preferences.confirm, name="confirm-address"),
    path("settings/notifications/", webhooks.webhooks, name="webhooks"),
    path("settings/notifications/create/", webhooks.create, name="webhook-create"),
    path("settings/notifications/<int:pk>/test/", webhooks.test, name="webhook-test"),
    path("settings/notifications/<int:pk>/pause/", webhooks.pause, name="webhook-pause"),
    path("settings/notifications/<int:pk>/resume/", webhooks.resume, name="webhook-resume"),
    path("settings/notifications/<int:pk>/delete/", webhooks.delete, name="webhook-delete"),
    path("settings/notifications/log/", deliveries.log, name="delivery-log"),
    path("settings/notifications/log/<uuid:pk>/again/", deliveries.again, name="delivery-again"),
]
