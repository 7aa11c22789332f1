"""Masking settings of the workspace, for admins."""

from typing import Any, Final

from django import forms
from django.contrib import messages
from django.db import transaction
from django.forms.models import model_to_dict
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from checkpoints.enums import AuditKind, Role
from checkpoints.models.translated_enum_choices import build_choices
from harness_site.accounts import load_masking_rules, record_user_audit_events
from harness_site.accounts.account_and_login_forms import set_field_labels_styles_and_errors
from harness_site.accounts.models import MaskingSettings
from harness_site.accounts.permissions import MemberRequest, require_member_with_role
from harness_site.accounts.reauthentication import require_recent_login
from harness_site.core.masking.values_with_secret_names import ENDINGS, PARTS, WORDS

_MAX_LINES: Final = 100
_MAX_LINE_LENGTH: Final = 100
_STARS: Final = 4
#: Minimum number of letters: shorter words would mask large parts of every page.
_SHORTEST: Final = 4


class MaskingForm(forms.Form):
    names = forms.CharField(required=False, widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false"}))
    words = forms.CharField(required=False, widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false"}))
    usual = forms.BooleanField(required=False)
    reveal_role = forms.ChoiceField(choices=build_choices(Role))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        set_field_labels_styles_and_errors(
            self,
            names=_("Field names"),
            words=_("Words in texts"),
            usual=_("Mask common secrets"),
            reveal_role=_("Role that may show secrets"),
        )
        self.fields["names"].help_text = _(
            "One name per line, such as passport_number. The value of a field with this name is masked."
        )
        self.fields["words"].help_text = _("One word per line. * stands for any letters, as in acme_live_*.")
        self.fields["usual"].help_text = _(
            "Keys and tokens of well-known services, card numbers, private keys, passwords in addresses, and fields "
            "named password, secret, token, api_key and similar."
        )
        self.fields["reveal_role"].help_text = _(
            "This role and higher ones. Each use needs the password, lasts ten minutes, and is recorded."
        )

    def clean_names(self) -> str:
        return "\n".join(_validate_and_split_unique_lines(self.cleaned_data["names"]))

    def clean_words(self) -> str:
        lines = _validate_and_split_unique_lines(self.cleaned_data["words"])
        for line in lines:
            if line.count("*") > _STARS or len(line.replace("*", "")) < _SHORTEST:
                raise forms.ValidationError(
                    _("“%(line)s” needs at least four letters and at most four stars.") % {"line": line}
                )
        return "\n".join(lines)


def _validate_and_split_unique_lines(text: str) -> list[str]:
    lines = list(dict.fromkeys(line.strip() for line in text.replace("\0", "").splitlines() if line.strip()))
    if len(lines) > _MAX_LINES or any(len(line) > _MAX_LINE_LENGTH for line in lines):
        raise forms.ValidationError(_("Enter at most 100 lines with at most 100 letters each."))
    return lines


@require_http_methods(["GET", "POST"])
@require_member_with_role(Role.ADMIN)
def edit_masking_settings(request: MemberRequest) -> HttpResponseBase:
    workspace = request.membership.workspace
    masking = load_masking_rules.load_masking_settings_or_defaults(workspace)
    form = MaskingForm(request.POST or None, initial=model_to_dict(masking, fields=list(MaskingForm.base_fields)))
    if request.method == "POST" and form.is_valid():
        return _save_masking_settings(request, form)
    status = 422 if request.method == "POST" else 200
    context = {"form": form, "tab": "masking", "endings": ENDINGS, "parts": PARTS, "words": WORDS}
    return render(request, "settings/masking.html", context, status=status)


@require_recent_login
def _save_masking_settings(request: MemberRequest, form: MaskingForm) -> HttpResponse:
    with transaction.atomic():
        MaskingSettings.objects.update_or_create(workspace=request.membership.workspace, defaults=form.cleaned_data)
        # The listed words may be sensitive, so only the names of changed fields are recorded.
        record_user_audit_events.record_member_event(
            request.membership, AuditKind.MASKING_CHANGED, request=request, fields=form.changed_data
        )
    messages.success(request, _("The masking rules were saved. They apply to every page from now on."))
    return redirect("harness_settings:masking")
