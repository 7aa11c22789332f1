"""Code with its words coloured by class; the classes are a closed set of our own."""

from functools import lru_cache

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from pygments import highlight as run
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.token import STANDARD_TYPES
from pygments.util import ClassNotFound

from harness_site.rendering.masking import masked
from harness_site.rendering.text import uncovered

_PREFIX = "hl-"
#: Every class this module can produce.
CLASSES = frozenset(_PREFIX + name for name in STANDARD_TYPES.values() if name)
#: Longer code is shown without colours.
LIMIT = 20_000

_formatter: HtmlFormatter[str] = HtmlFormatter(nowrap=True, classprefix=_PREFIX)


def highlight(code: str, language: str) -> SafeString:
    """The inside of a `<pre>`. A language nobody knows, and very long code, are escaped text."""
    code = masked(code)
    return escape(uncovered(code)) if len(code) > LIMIT else _highlight(code, language)


@lru_cache(maxsize=512)
def _highlight(code: str, language: str) -> SafeString:
    # What depends on the reader has happened: this remembers for everybody.
    code = uncovered(code)
    try:
        lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return escape(code)
    return mark_safe(run(code, lexer, _formatter))  # noqa: S308 - the formatter escapes what it is given
