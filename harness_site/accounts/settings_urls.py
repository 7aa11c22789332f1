from django.urls import path

from harness_site.accounts.views import masking, members, tokens

urlpatterns = [
    path("members/", members.members, name="members"),
    path("members/<int:pk>/role/", members.change_role, name="member-role"),
    path("members/<int:pk>/remove/", members.remove, name="member-remove"),
    path("members/<int:pk>/reset-factors/", members.reset_factors, name="member-reset-factors"),
    path("invitations/", members.invite, name="invite"),
    path("invitations/<int:pk>/revoke/", members.revoke, name="invitation-revoke"),
    path("masking/", masking.masking, name="masking"),
    path("tokens/", tokens.tokens, name="tokens"),
    path("tokens/create/", tokens.create, name="token-create"),
    path("tokens/<int:pk>/revoke/", tokens.revoke, name="token-revoke"),
]
