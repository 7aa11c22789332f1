from typing import Any

from django.contrib.auth.forms import AuthenticationForm


class SignInForm(AuthenticationForm):
    """Name and password."""

    error_messages = {
        "invalid_login": "This name and password do not belong together. Mind capital letters in both.",
        "inactive": "This account is switched off. An admin can switch it on again.",
    }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["username"].label = "Name"
        for field in self.fields.values():
            field.widget.attrs["class"] = "input"
            field.error_messages["required"] = f"{field.label} is missing."
