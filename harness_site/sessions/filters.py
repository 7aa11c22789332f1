"""What the address of the list of sessions asks for."""

from decimal import Decimal
from typing import Final

from django.db.models import Q, Subquery
from django.http import QueryDict

from checkpoints.queries.narrowing import SessionFilter, Sort
from checkpoints.queries.standing import Standing
from harness_site.rendering.references import resolve
from harness_site.search import active_days, finding
from harness_site.search.models import Fact, Kind, Trait
from harness_site.search.words import Query
from harness_site.sessions.days import Days

#: Nobody types more; longer ones only cost time.
LONGEST: Final = 200
#: Amounts have so many digits before the point at most.
_LARGEST: Final = Decimal(10**12)
_TRAITS: Final = {"label": Trait.LABEL, "tool": Trait.TOOL, "by": Trait.DECIDED_BY}
#: What tells of them.
_TOLD_BY: Final = {
    Trait.LABEL: Kind.SESSION,
    Trait.TOOL: Kind.CALL,
    Trait.INTERRUPTED: Kind.CALL,
    Trait.DECIDED_BY: Kind.DECISION,
}


def wanted(workspace: int, asked: QueryDict) -> SessionFilter:
    """Everything but the words that are looked for. What cannot be understood narrows nothing. Days are those on which
    sessions were active or, where the list is sorted by it, on which they began."""
    status, sort = asked.get("status", ""), asked.get("sort", "")
    began, days = sort == Sort.STARTED, Days.of(asked)
    among = [_with(workspace, *pair) for pair in _traits(asked)]
    if days and not began:
        among.append(Q(pk__in=active_days.between(workspace, days.first, days.last)))
    return SessionFilter(
        standing=Standing(status) if status in Standing.values else None,
        agent=typed(asked, "agent"),
        first=days.first if began else None,
        last=days.last if began else None,
        least=_amount(asked.get("least", "")),
        most=_amount(asked.get("most", "")),
        among=tuple(among),
        sort=Sort(sort) if sort in Sort.values else Sort.UPDATED,
    )


def told_by(asked: QueryDict) -> set[Kind]:
    """What has to be in the index for the list to be complete."""
    if asked.get("sort") != Sort.STARTED and Days.of(asked):
        return set(Kind)
    return {_TOLD_BY[trait] for trait, _ in _traits(asked)}


def matching_keys(workspace: int, asked: QueryDict) -> frozenset[int] | None:
    """Return the keys of all sessions that hold the words that are looked for; None where no words are.

    For a file of everything that is found: there may be more keys than one statement takes parameters.
    """
    query = Query.parse(typed(asked, "q"))
    return frozenset(finding.sessions(workspace, query)) if query else None


def typed(asked: QueryDict, name: str) -> str:
    return resolve(asked.get(name, "").replace("\0", "").strip())[:LONGEST]


def _traits(asked: QueryDict) -> list[tuple[Trait, str]]:
    found = [(trait, typed(asked, name)) for name, trait in _TRAITS.items() if typed(asked, name)]
    return [*found, (Trait.INTERRUPTED, "")] if asked.get("interrupted") else found


def _with(workspace: int, trait: str, value: str) -> Q:
    """Also not before the first of them: a plan that goes along the keys of all sessions begins there."""
    keys = Fact.objects.filter(workspace=workspace, trait=trait, value=value).values("session")
    return Q(pk__in=keys, pk__gte=Subquery(keys.order_by("session")[:1]))


def _amount(text: str) -> Decimal | None:
    number = text.strip().lstrip("$")
    if not (number.isascii() and number.replace(".", "", 1).isdecimal()):
        return None
    found = Decimal(number).quantize(Decimal("0.000001")) if len(number) <= 24 else _LARGEST
    return found if found < _LARGEST else None
