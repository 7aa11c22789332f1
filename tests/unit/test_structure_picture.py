"""The structure picture is drawn from the import contract."""

from xml.etree import ElementTree

from tests.support import import_contract_diagram

CONTRACT = {
    "root_packages": ["library", "site", "django"],
    "contracts": [
        {
            "type": "forbidden",
            "name": "direction",
            "source_modules": ["library"],
            "forbidden_modules": ["site", "django.http"],
        },
        {
            "type": "layers",
            "name": "Layers",
            "containers": ["library"],
            "layers": ["(client) : (admin)", "calls | versions", "models"],
        },
        {"type": "independence", "name": "Pages", "modules": ["site.review", "site.audit"]},
    ],
}


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]  # noqa: S314


def test_picture_is_up_to_date() -> None:
    # To draw it again: make picture
    assert import_contract_diagram.PICTURE.read_text() == import_contract_diagram.draw_current_contracts()


def test_importing_packages_and_layers_are_drawn_first() -> None:
    assert texts(import_contract_diagram.draw_contracts(CONTRACT)) == [
        "site",
        "Pages",
        "review",
        "audit",
        "imports, never the reverse",
        "library",
        "Layers",
        "client",
        "admin",
        "calls",
        "versions",
        "models",
    ]


def test_many_modules_of_a_layer_fit_into_the_picture() -> None:
    layer = " : ".join(f"({'module' * 3}_{number})" for number in range(20))
    contract = {"type": "layers", "name": "Layers", "containers": ["library"], "layers": [layer]}

    svg = import_contract_diagram.draw_contracts({"root_packages": ["library"], "contracts": [contract]})

    boxes = list(ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}rect"))  # noqa: S314
    assert all(float(box.attrib["x"]) + float(box.attrib["width"]) <= import_contract_diagram.WIDTH for box in boxes)
