"""Page on which a user chooses the display settings."""

from typing import Any, cast

from django import forms
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods

from harness_site.accounts.account_and_login_forms import set_field_labels_styles_and_errors
from harness_site.accounts.membership_queries import may_user_decide_in_a_workspace
from harness_site.core.site_languages import list_languages_to_choose
from harness_site.display import display_preferences, time_zones
from harness_site.display.models import Theme


class DisplayForm(forms.Form):
    """The time zone is a text field with suggestions, because the list has 400 entries."""

    time_zone = forms.CharField(
        required=False,
        max_length=64,
        label=_("Time zone"),
        help_text=_("Type a city, and choose from the list. Leave it empty to use the time zone of each browser."),
        widget=forms.TextInput({"list": "time-zones", "autocomplete": "off", "spellcheck": "false"}),
    )
    language = forms.ChoiceField(
        required=False,
        choices=lambda: [("", _("Same as the browser")), *list_languages_to_choose()],
        label=_("Language"),
    )
    theme = forms.ChoiceField(required=False, choices=Theme, label=_("Theme"))
    opens_next_call = forms.BooleanField(
        required=False, label=_("After a decision, open the next call of the review queue by itself")
    )

    def __init__(self, *args: Any, browser_zone: str, can_decide: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not can_decide:
            del self.fields["opens_next_call"]
        set_field_labels_styles_and_errors(self)
        self.fields["time_zone"].widget.attrs["placeholder"] = (
            gettext("Same as the browser: %(zone)s") % {"zone": browser_zone}
            if browser_zone
            else gettext("Same as the browser")
        )

    def clean_time_zone(self) -> str:
        text = str(self.cleaned_data["time_zone"]).strip()
        name = time_zones.find_time_zone_name_or_empty(text)
        if not text or name:
            return name
        if suggestion := time_zones.suggest_time_zone_name(text):
            sentence = gettext("There is no time zone with this name. Did you mean %(zone)s?") % {"zone": suggestion}
            raise forms.ValidationError(sentence)
        raise forms.ValidationError(
            _("There is no time zone with this name. Choose one from the list, for example Europe/Berlin, or UTC.")
        )


@require_http_methods(["GET", "POST"])
def edit_display(request: HttpRequest) -> HttpResponse:
    """Edit the choice of any signed-in user; it belongs to a user, not to a workspace."""
    initial = {
        "time_zone": request.session.get(time_zones.SESSION_KEY, ""),
        "language": display_preferences.get_chosen_language_or_empty(request),
        "theme": display_preferences.get_chosen_theme_or_empty(request),
        "opens_next_call": display_preferences.wants_next_call_opened(request),
    }
    browser_zone = time_zones.get_browser_time_zone_name_or_empty(request)
    user = cast(User, request.user)
    form = DisplayForm(
        request.POST if request.method == "POST" else None,
        initial=initial,
        browser_zone=browser_zone,
        can_decide=may_user_decide_in_a_workspace(user),
    )
    if request.method == "POST" and form.is_valid():
        choice = {"opens_next_call": initial["opens_next_call"], **form.cleaned_data}
        display_preferences.save_display_choice(request, user, **choice)
        return redirect(f"{request.path}?saved=1")
    context = {
        "form": form,
        "zones": time_zones.list_time_zone_names_without_aliases(),
        "browser_zone": browser_zone,
        "saved": "saved" in request.GET,
    }
    return render(request, "display/display.html", context, status=422 if request.method == "POST" else 200)
