"""Labels of enumerations in the language of the reader, and the choices of the fields that store them."""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from checkpoints.enums import LabelledEnum


def translate_label(member: LabelledEnum) -> Promise:
    """Return the label of a member, which is translated when it is shown."""
    return gettext_lazy(member.label)


def build_choices(enum: type[LabelledEnum]) -> list[tuple[str, Promise]]:
    """Return the choices of a field that stores members of `enum`."""
    return [(member.value, translate_label(member)) for member in enum]
