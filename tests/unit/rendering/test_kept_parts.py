"""`{% keep %}` names everything that it shows: what it does not name would be shown out of date."""

from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.template import Template
from django.template.loader import get_template

from harness_site.templatetags.harness import Keep
from tests.support.variables import read

TEMPLATES = Path(settings.BASE_DIR) / "templates"
TEXTS = {str(path.relative_to(TEMPLATES)): path.read_text() for path in sorted(TEMPLATES.rglob("*.html"))}


def unnamed(part: Keep) -> set[str]:
    """What a kept part shows without having named it."""
    named = [value.token for value in part.values]
    return {path for path in read(part.inside) if not any(f"{path}.".startswith(f"{name}.") for name in named)}


def parts(template: Any) -> list[Keep]:
    found: list[Keep] = template.nodelist.get_nodes_by_type(Keep)
    return found


@pytest.mark.parametrize("name", [name for name, text in TEXTS.items() if "{% keep " in text])
def test_a_part_names_what_it_shows(name: str) -> None:
    template: Any = get_template(name)
    found = parts(template.template)
    assert [unnamed(part) for part in found] == [set() for _ in range(TEXTS[name].count("{% keep "))]


@pytest.mark.parametrize(
    "inside",
    [
        "{{ other.name }}",
        "{{ row.name|default:other.name }}",
        "{% if row.name and not other.name %}yes{% endif %}",
        "{% if row.name %}{% elif other.name == 'x' %}yes{% endif %}",
        "{% for each in other.name %}{{ each }}{% endfor %}",
        "{% for each in row.names %}{{ each }}{% empty %}{{ other.name }}{% endfor %}",
        "{% with row=other.name %}{{ row }}{% endwith %}",
        "{% url 'session' other.name %}",
        "{% url 'session' row.pk as address %}{{ address }}{{ other.name }}",
        "{% ago other.name %}",
        "{% include 'review/parts/on_it.html' with company=other.name %}",
    ],
)
def test_what_is_not_named_is_noticed(inside: str) -> None:
    (part,) = parts(Template(f"{{% keep row %}}{inside}{{% endkeep %}}"))
    assert unnamed(part) == {"other.name"}


def test_an_included_part_is_looked_through() -> None:
    (part,) = parts(Template("{% keep row %}{% include 'review/parts/on_it.html' %}{% endkeep %}"))
    assert {"company.mine", "company.theirs.name"} <= unnamed(part)


def test_the_address_of_the_page_has_to_be_named() -> None:
    link = "{% narrowed tool=row.tool %}"
    for names, missing in (("row", {"here"}), ("row here", set())):
        (part,) = parts(Template(f"{{% keep {names} %}}{link}{{% endkeep %}}"))
        assert unnamed(part) == missing


def test_a_name_is_not_the_beginning_of_another() -> None:
    (part,) = parts(Template("{% keep days.first %}{{ days.first_of_all }}{{ days.first.year }}{% endkeep %}"))
    assert unnamed(part) == {"days.first_of_all"}
