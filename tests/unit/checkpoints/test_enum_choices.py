"""Labels of the library's enumerations in the language of the reader."""

from __future__ import annotations

from django.utils.translation import override

from checkpoints.enums import CallStatus, LabelledEnum
from checkpoints.models import ToolCall
from checkpoints.models.translated_enum_choices import build_choices, translate_label


def test_label_is_english_and_its_translation_follows_the_reader() -> None:
    label = translate_label(CallStatus.INTERRUPTED)

    assert CallStatus.INTERRUPTED.label == "Outcome unknown"
    with override("de"):
        assert (str(label), CallStatus.INTERRUPTED.label) == ("Ergebnis unbekannt", "Outcome unknown")
    with override("en"):
        assert str(label) == "Outcome unknown"


def test_choices_of_a_field_are_translated_when_they_are_shown() -> None:
    call = ToolCall(status=CallStatus.COMPLETED)

    with override("de"):
        assert call.get_status_display() == str(dict(build_choices(CallStatus))["completed"]) != "Completed"


def test_members_are_their_values() -> None:
    class Fruit(LabelledEnum):
        APPLE = "apple", "An apple"
        PEAR = "pear", "A pear"

    assert (Fruit.values, Fruit("pear"), f"{Fruit.APPLE}") == (["apple", "pear"], Fruit.PEAR, "apple")
    assert ({"pear": 1}[Fruit.PEAR], Fruit.PEAR.label) == (1, "A pear")
