"""Translation catalogues of the pages, for GNU gettext.

`python -m tests.support.translation_catalogues` collects and compiles them.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
LOCALE: Final = ROOT / "harness_site" / "locale"
#: Not part of the product, or not written here.
_IGNORED: Final = (".venv*", "tests", "examples", "benchmarks", "clients", "static/vendor", "build", "dist")
#: Changes with each run, and says nothing.
_CREATION_DATE: Final = re.compile(r'^"POT-Creation-Date: .*\n', re.MULTILINE)


def list_languages() -> list[str]:
    return sorted(folder.name for folder in LOCALE.iterdir() if folder.is_dir())


def collect_messages(locale: Path = LOCALE) -> None:
    """Write each sentence of the current folder that is marked for translation into the catalogue of each language.

    `locale` is the first of Django's `LOCALE_PATHS`.
    """
    from django.core.management import call_command

    for domain, patterns in (("django", ["html", "txt", "py"]), ("djangojs", ["js"])):
        call_command(
            "makemessages",
            locale=list_languages(),
            domain=domain,
            extensions=patterns,
            ignore_patterns=list(_IGNORED),
            no_location=True,
            no_obsolete=True,
            verbosity=0,
        )
    for catalogue in locale.glob("*/LC_MESSAGES/*.po"):
        catalogue.write_text(_CREATION_DATE.sub("", catalogue.read_text()))


def compile_catalogue(catalogue: Path, target: Path) -> None:
    """Compile a catalogue; placeholders that a translation lacks or adds are an error."""
    subprocess.run(
        ["msgfmt", "--check-format", "--output-file", str(target), str(catalogue)],
        check=True,
        capture_output=True,
        text=True,
    )


if __name__ == "__main__":
    import django

    os.chdir(ROOT)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "harness_site.settings")
    django.setup()
    collect_messages()
    for source in LOCALE.glob("*/LC_MESSAGES/*.po"):
        compile_catalogue(source, source.with_suffix(".mo"))
