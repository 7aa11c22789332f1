"""Measure everything, on both kinds of database. Needs Django to be set up."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime

from benchmarks import agents, calls, fresh, lineup, loading, machine, processes, saving
from benchmarks.conversation import Conversation, conversation
from benchmarks.databases import KINDS, TITLES, Databases, Kind
from benchmarks.plan import Plan
from benchmarks.rates import Rates
from benchmarks.results import Measured, Results


def measure(databases: Databases, chosen: Plan, say: Callable[[str], None]) -> Results:
    talk = conversation(chosen.turns[-1])
    gc.collect()
    gc.freeze()  # so that the collector does not walk the conversation in the middle of a save
    return Results(
        plan=chosen,
        machine=machine.describe(databases),
        day=datetime.now(UTC).date(),
        said=talk.size(chosen.together),
        contenders={each.key: each.title for each in lineup.CONTENDERS},
        crowds={each.key: each.title for each in lineup.CROWDS},
        callers=lineup.CALLERS,
        missing=lineup.missing(),
        measured={kind: _measured(databases, kind, talk, chosen, say) for kind in KINDS},
    )


def _measured(
    databases: Databases, kind: Kind, talk: Conversation, chosen: Plan, say: Callable[[str], None]
) -> Measured:
    title = TITLES[kind]
    with ExitStack() as leaving:
        contenders = lineup.contenders(databases, kind, talk)
        for contender in contenders:
            leaving.callback(contender.close)
        say(f"{title}: saving")
        saved = saving.measure(contenders, chosen)
        say(f"{title}: loading")
        loaded = loading.measure(contenders, chosen)
        say(f"{title}: tool calls")
        called = calls.measure(lineup.callers(contenders), chosen)
    say(f"{title}: many agents")
    crowded = _crowded(databases, kind, talk, chosen)
    say(f"{title}: many processes")
    parallel = processes.measure(databases, kind, chosen)
    say(f"{title}: fresh processes")
    return Measured(saved, loaded, called, crowded, parallel, fresh.measure(databases, kind, chosen))


def _crowded(databases: Databases, kind: Kind, talk: Conversation, chosen: Plan) -> Rates:
    with ExitStack() as leaving:
        crowds = lineup.crowds(databases, kind, talk)
        for crowd in crowds:
            leaving.callback(crowd.close)
        return agents.measure(crowds, chosen)
