from django.urls import path
from django.views.generic import RedirectView

from harness_site.accounts.views import masking_settings, member_settings, token_settings

app_name = "harness_settings"
urlpatterns = [
    path("", RedirectView.as_view(pattern_name="harness_settings:members"), name="settings"),
    path("members/", member_settings.list_members, name="members"),
    path("members/<int:pk>/role/", member_settings.change_member_role, name="member-role"),
    path("members/<int:pk>/remove/", member_settings.remove_member, name="member-remove"),
    path("members/<int:pk>/reset-factors/", member_settings.reset_member_factors, name="member-reset-factors"),
    path("members/<int:pk>/deactivate/", member_settings.deactivate_member, name="member-deactivate"),
    path("members/<int:pk>/reactivate/", member_settings.reactivate_member, name="member-reactivate"),
    path("members/second-factor/", member_settings.change_factor_requirement, name="factor-requirement"),
    path("invitations/", member_settings.create_invitation_and_send_link, name="invite"),
    path("invitations/<int:pk>/replace/", member_settings.replace_invitation_and_send_link, name="invitation-replace"),
    path("invitations/<int:pk>/revoke/", member_settings.revoke_invitation, name="invitation-revoke"),
    path("masking/", masking_settings.edit_masking_settings, name="masking"),
    path("tokens/", token_settings.list_tokens, name="tokens"),
    path("tokens/create/", token_settings.create_token, name="token-create"),
    path("tokens/<int:pk>/revoke/", token_settings.revoke_token, name="token-revoke"),
]
