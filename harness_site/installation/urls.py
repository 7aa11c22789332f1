from django.urls import path

from harness_site.installation import views

app_name = "harness_installation"
urlpatterns = [
    path("first-steps/", views.show_first_steps, name="first-steps"),
    path("connect/", views.show_connect_page, name="connect"),
    path("system/", views.show_system_page, name="system"),
    path("system/mail/", views.send_test_mail, name="test-mail"),
]
