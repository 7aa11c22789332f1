"""Forms of accounts and logins, most of them django-allauth's with the site's labels and styles."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from allauth.account import forms as account
from allauth.mfa.adapter import get_adapter
from allauth.mfa.base import forms as factors
from allauth.mfa.models import Authenticator
from allauth.mfa.totp import forms as totp
from allauth.mfa.webauthn import forms as webauthn
from cryptography.exceptions import InvalidSignature
from django import forms as django_forms
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.forms import BaseForm, CheckboxInput, Field, PasswordInput
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

#: The only field of its page. One-time codes and recovery codes consist of digits.
_CODE_FIELD: Final = {"autofocus": True, "inputmode": "numeric"}
PASSWORD_HELP: Final = gettext_lazy("At least eight characters. Do not use a common password.")


#: Fields whose error names what to enter.
_NAME_FIELDS: Final = frozenset({"login", "name", "username"})


def set_field_labels_styles_and_errors(form: BaseForm, **labels: Any) -> None:
    """Set the labels, CSS classes and error messages of the form's fields."""
    for name, field in form.fields.items():
        field.label = labels.get(name, field.label)
        field.widget.attrs.pop("placeholder", None)
        if not isinstance(field.widget, CheckboxInput):
            field.widget.attrs["class"] = "input"
        field.error_messages["required"] = _build_required_message(name, field)
        if isinstance(field, django_forms.EmailField):
            field.error_messages["invalid"] = _("Enter a complete e-mail address, such as name@example.org.")


def _build_required_message(name: str, field: Field) -> str:
    """Return the error of an empty field."""
    if isinstance(field.widget, PasswordInput):
        return _("Enter the password.")
    if name in _NAME_FIELDS:
        return _("Enter a name.")
    if name == "address":
        return _("Enter an address.")
    return _("Enter a value for “%(label)s”.") % {"label": field.label}


class NewAccountForm(django_forms.Form):
    """Form with name and password of a new account."""

    username = django_forms.CharField(
        max_length=150,
        validators=[
            UnicodeUsernameValidator(
                message=gettext_lazy("A name has letters, digits and the characters @ . + - _ only, and no spaces.")
            )
        ],
        label=gettext_lazy("Name"),
        help_text=gettext_lazy(
            "You sign in with it, and what you do is recorded under it. It has letters, digits and @ . + - _ only."
        ),
        widget=django_forms.TextInput(
            attrs={"autocomplete": "username", "autocapitalize": "none", "spellcheck": "false"}
        ),
    )
    password = django_forms.CharField(
        label=gettext_lazy("Password"),
        widget=django_forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        strip=False,
        help_text=PASSWORD_HELP,
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        set_field_labels_styles_and_errors(self)

    def clean_username(self) -> str:
        name = str(self.cleaned_data["username"])
        if User.objects.filter(username__iexact=name).exists():
            raise django_forms.ValidationError(_("This name is taken. Choose another one."))
        return name

    def clean_password(self) -> str:
        password = str(self.cleaned_data["password"])
        validate_password(password, User(username=self.cleaned_data.get("username", "")))
        return password


class FirstAccountForm(NewAccountForm):
    """Form for the first account of an installation, with an optional address for notifications."""

    email = django_forms.EmailField(
        required=False,
        max_length=254,
        label=gettext_lazy("E-mail (optional)"),
        help_text=gettext_lazy("Notifications go to this address."),
        widget=django_forms.EmailInput(attrs={"autocomplete": "email"}),
    )
    field_order = ("username", "email", "password")


class SignInForm(account.LoginForm):  # type: ignore[misc]
    """Login form with name and password."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        set_field_labels_styles_and_errors(self, login=_("Name"), password=_("Password"))
        self.fields["login"].widget.attrs |= {"autocapitalize": "none", "spellcheck": "false"}
        # After a refusal the name is still there, and the password has to be entered again.
        is_name_known = self.is_bound and self.data.get(self.add_prefix("login"))
        self.fields["password" if is_name_known else "login"].widget.attrs["autofocus"] = True
        self.fields["password"].help_text = ""

    def add_prefix(self, field_name: str) -> str:
        return "username" if field_name == "login" else field_name


class ReauthenticateWithPasswordForm(account.ReauthenticateForm):  # type: ignore[misc]
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        set_field_labels_styles_and_errors(self, password=_("Password"))
        self.fields["password"].help_text = ""
        self.fields["password"].widget.attrs["autofocus"] = True


class ChangePasswordForm(account.ChangePasswordForm):  # type: ignore[misc]
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        set_field_labels_styles_and_errors(
            self, oldpassword=_("Current password"), password1=_("New password"), password2=_("Repeat new password")
        )
        self.fields["oldpassword"].help_text = ""
        self.fields["password1"].help_text = PASSWORD_HELP


class SetPasswordForm(account.SetPasswordForm):  # type: ignore[misc]
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        set_field_labels_styles_and_errors(self, password1=_("Password"), password2=_("Repeat password"))
        self.fields["password1"].help_text = PASSWORD_HELP


class CodeForm(factors.AuthenticateForm):  # type: ignore[misc]
    """Form for a one-time code or a recovery code."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        set_field_labels_styles_and_errors(self, code=_("Code"))
        self.fields["code"].widget.attrs |= _CODE_FIELD


class ReauthenticateWithCodeForm(factors.ReauthenticateForm):  # type: ignore[misc]
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        set_field_labels_styles_and_errors(self, code=_("Code"))
        self.fields["code"].widget.attrs |= _CODE_FIELD


class FirstCodeForm(totp.ActivateTOTPForm):  # type: ignore[misc]
    """Form for the first code of a new TOTP key, which proves that the app has the key."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        set_field_labels_styles_and_errors(self, code=_("Current code"))
        self.fields["code"].widget.attrs |= {"inputmode": "numeric", "autocomplete": "one-time-code"}


@contextmanager
def _convert_parser_errors() -> Iterator[None]:
    """Convert exceptions of the WebAuthn parsers into a validation error: clients may send arbitrary data."""
    try:
        yield
    except (ArithmeticError, AttributeError, InvalidSignature, LookupError, TypeError, ValueError, struct.error):
        raise get_adapter().validation_error("incorrect_code") from None


class _PasskeyResponseMixin:
    def clean_credential(self) -> Authenticator:
        with _convert_parser_errors():
            return super().clean_credential()  # type: ignore[misc]


class PasskeySignInForm(_PasskeyResponseMixin, webauthn.LoginWebAuthnForm):  # type: ignore[misc]
    pass


class PasskeyFactorForm(_PasskeyResponseMixin, webauthn.AuthenticateWebAuthnForm):  # type: ignore[misc]
    pass


class ReauthenticateWithPasskeyForm(_PasskeyResponseMixin, webauthn.ReauthenticateWebAuthnForm):  # type: ignore[misc]
    pass


class PasskeyForm(webauthn.AddWebAuthnForm):  # type: ignore[misc]
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        set_field_labels_styles_and_errors(
            self, name=_("Name of the passkey"), passwordless=_("Sign in with this passkey alone")
        )
        self.fields["passwordless"].help_text = _(
            "No password is needed. The passkey asks for your fingerprint, face or PIN each time."
        )
        self.fields["passwordless"].initial = True

    def clean(self) -> dict[str, Any]:
        with _convert_parser_errors():
            data: dict[str, Any] = super().clean()
            return data


class PasskeyNameForm(webauthn.EditWebAuthnForm):  # type: ignore[misc]
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        set_field_labels_styles_and_errors(self, name=_("Name"))
