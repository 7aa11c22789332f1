from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import LogoutView
from django.urls import path

from harness_site.accounts import views

urlpatterns = [
    path("login/", views.sign_in, name="login"),
    path("logout/", login_not_required(LogoutView.as_view()), name="logout"),
]
