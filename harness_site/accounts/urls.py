from django.urls import path

from harness_site.accounts.views import account, entrance, invitation, secrets

urlpatterns = [
    path("", account.account, name="account"),
    path("login/", entrance.sign_in, name="login"),
    path("logout/", entrance.sign_out, name="logout"),
    path("invitations/<str:secret>/", invitation.invitation, name="invitation"),
    path("workspace/", account.switch, name="switch-workspace"),
    path("workspace/<str:workspace>/<path:place>", account.enter, name="enter-workspace"),
    path("secrets/", secrets.reveal, name="reveal-secrets"),
    path("secrets/hide/", secrets.hide, name="hide-secrets"),
    path("sign-ins/end/", account.end_others, name="end-sign-ins"),
]
