"""Forms of django-allauth with the site's labels and styles."""

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
from django.forms import BaseForm, CheckboxInput

HOW_TO_CHOOSE: Final = "At least eight characters, and not one that everybody uses."


def style_form_fields(form: BaseForm, **labels: str) -> None:
    """Set the labels, CSS classes and error messages of the form's fields."""
    for name, field in form.fields.items():
        field.label = labels.get(name, field.label)
        field.widget.attrs.pop("placeholder", None)
        if not isinstance(field.widget, CheckboxInput):
            field.widget.attrs["class"] = "input"
        field.error_messages["required"] = f"{field.label} is missing."


class SignInForm(account.LoginForm):  # type: ignore[misc]
    """Login form with name and password."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        style_form_fields(self, login="Name", password="Password")  # noqa: S106 - a label
        self.fields["login"].widget.attrs |= {"autofocus": True, "autocapitalize": "none", "spellcheck": "false"}
        self.fields["password"].help_text = ""

    def add_prefix(self, field_name: str) -> str:
        return "username" if field_name == "login" else field_name


class ReauthenticateWithPasswordForm(account.ReauthenticateForm):  # type: ignore[misc]
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        style_form_fields(self, password="Password")  # noqa: S106 - a label
        self.fields["password"].help_text = ""


class ChangePasswordForm(account.ChangePasswordForm):  # type: ignore[misc]
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        style_form_fields(
            self, oldpassword="Present password", password1="New password", password2="New password, again"
        )
        self.fields["oldpassword"].help_text = ""
        self.fields["password1"].help_text = HOW_TO_CHOOSE


class SetPasswordForm(account.SetPasswordForm):  # type: ignore[misc]
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        style_form_fields(self, password1="Password", password2="Password, again")
        self.fields["password1"].help_text = HOW_TO_CHOOSE


class CodeForm(factors.AuthenticateForm):  # type: ignore[misc]
    """Form for a one-time code or a recovery code."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        style_form_fields(self, code="Code")


class ReauthenticateWithCodeForm(factors.ReauthenticateForm):  # type: ignore[misc]
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        style_form_fields(self, code="Code")


class FirstCodeForm(totp.ActivateTOTPForm):  # type: ignore[misc]
    """Form for the first code of a new TOTP key, which proves that the app has the key."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        style_form_fields(self, code="Code that is shown now")
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
        style_form_fields(self, name="What to call it", passwordless="Sign in with it alone, without a password")
        self.fields["passwordless"].help_text = "It then asks for a finger, a face or its PIN each time."
        self.fields["passwordless"].initial = True

    def clean(self) -> dict[str, Any]:
        with _convert_parser_errors():
            data: dict[str, Any] = super().clean()
            return data


class PasskeyNameForm(webauthn.EditWebAuthnForm):  # type: ignore[misc]
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        style_form_fields(self, name="Name")
