from typing import Any

from django import forms

from checkpoints.enums import DecisionKind
from harness_site.rendering.saying import safe_link

#: Answer → (its name, what it does to the call, the words on the button).
ANSWERS = {
    DecisionKind.CONFIRM_LANDED: (
        "It happened",
        "Record the result below. The agent goes on as if the call had returned it. Nothing runs again.",
        "Record that it happened",
    ),
    DecisionKind.MARK_FAILED: (
        "It did not happen",
        "Mark the call as failed. The agent is told so, with your reason, and may decide to try again.",
        "Record that it did not happen",
    ),
    DecisionKind.APPROVE_RERUN: (
        "Run it once more",
        "Exactly one more execution, with exactly these arguments. If the first one did happen, it will have "
        "happened twice.",
        "Approve one more run",
    ),
}


class DecisionForm(forms.Form):
    """One person's answer about one call, bound to what they saw of it."""

    kind = forms.ChoiceField(
        choices=[(kind.value, name) for kind, (name, _, _) in ANSWERS.items()],
        error_messages={"required": "Choose one of the three answers."},
    )
    result = forms.CharField(
        required=False,
        strip=False,
        label="Result the agent will see",
        widget=forms.Textarea(attrs={"rows": 2, "class": "mono"}),
    )
    reason = forms.CharField(
        label="Why",
        max_length=4000,
        widget=forms.Textarea(attrs={"rows": 2, "required": True}),
        error_messages={"required": "Say why in a sentence: it is kept with your name."},
    )
    evidence = forms.CharField(
        required=False, label="Evidence", max_length=2000, widget=forms.TextInput(attrs={"class": "input"})
    )
    revision = forms.IntegerField(min_value=1, widget=forms.HiddenInput)

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or {}
        if data.get("kind") == DecisionKind.CONFIRM_LANDED and not data.get("result", "").strip():
            self.add_error("result", "The agent waits for a result: say what the call returned.")
        return data

    def cited(self) -> dict[str, str] | None:
        """The evidence as it is stored: a link, or a reference in words."""
        given: str = self.cleaned_data["evidence"]
        if not given:
            return None
        return {"link": given} if safe_link(given) else {"text": given}
