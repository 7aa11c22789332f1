"""Formatting of the results as a page of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from benchmarks.benchmark_databases import TITLES
from benchmarks.duration_samples import DurationSamples
from benchmarks.full_and_quick_run_sizes import FULL
from benchmarks.performance_targets import compute_target_verdicts
from benchmarks.result_types import DatabaseResults, RunResults

_ABSENT = "—"
_WHAT = (
    "- Hand-written SQL: a table of threads, one of entries, one of versions, with the constraints Django makes. "
    "Over Django's connection it runs with Django's defaults; over the bare driver, as ours, statements are prepared. "
    "One statement on PostgreSQL; one transaction of three on SQLite. No digests, no owner, no checks.",
    "- LangGraph: the savers alone, called as a graph's loop calls them. Its default channel also stores each step's "
    "writes when a graph runs; only its checkpoint is counted here.",
    "- A full copy in every version: the whole transcript as JSON, on both databases.",
)


def format_page(results: RunResults) -> str:
    return (
        "\n".join(
            [*_format_page_head(results), *_format_targets_section(results), *_format_sections_of_databases(results)]
        )
        + "\n"
    )


def _format_page_head(results: RunResults) -> Iterator[str]:
    yield "# Benchmarks"
    yield ""
    yield f"Measured on {results.day.isoformat()} by `make benchmarks`: {results.machine}."
    yield ""
    yield (
        "This page is written by that command. Contenders alternate in one run, in another order each turn, each in a "
        "database of its own on the same server and disk; ratios say more than milliseconds. A turn adds three "
        "messages of 1.5 KB each. "
        "Cells are **median** (fastest – 95th percentile) in milliseconds."
    )
    if results.plan is not FULL:
        yield ""
        yield "A quick run: it has fewer turns and rounds than the targets speak of."
    yield ""
    yield from _WHAT
    yield ""


def _format_targets_section(results: RunResults) -> Iterator[str]:
    yield "## Targets"
    yield ""
    rows = []
    for verdict in compute_target_verdicts(results):
        limit = f"{'≥' if verdict.at_least else '≤'} {verdict.limit:g}{verdict.unit}"
        outcome = "reached" if verdict.is_reached else "**not reached**"
        value = f"{verdict.value:.2f}{verdict.unit}"
        bare = "" if verdict.bare is None else f"{verdict.bare:.2f}{verdict.unit}"
        rows.append([verdict.target, verdict.what, verdict.database_title, value, limit, outcome, bare])
    yield from _format_table(["target", "what", "on", "measured", "wanted", "", "the hand-written statement"], rows)


def _format_sections_of_databases(results: RunResults) -> Iterator[str]:
    for kind, measured in results.measured.items():
        yield f"## {TITLES[kind]}"
        yield ""
        yield from _format_saving_section(results, measured)
        yield from _format_disk_size_section(results, measured)
        yield from _format_loading_section(results, measured)
        yield from _format_tool_calls_section(results, measured)
        yield from _format_concurrent_agents_section(results, measured)
        yield from _format_processes_section(results, measured)
        yield from _format_fresh_process_section(measured)


def _format_saving_section(results: RunResults, measured: DatabaseResults) -> Iterator[str]:
    saving, together = measured.saving, results.plan.together
    yield "### One save, by turn"
    yield ""
    rows = []
    for key, title in results.contenders.items():
        if title in results.missing:
            rows.append([title, f"not measured: {results.missing[title]}", *[_ABSENT] * (len(results.plan.turns) + 2)])
            continue
        costs = [saving.costs[key, turn] for turn in results.plan.turns]
        cells = [_format_samples_cell(cost.samples) + (" †" if cost.jumped else "") for cost in costs]
        at = saving.get_median_ms(key, together)
        floor, own_median = (
            saving.get_median_ms("statement", together),
            saving.get_median_ms("append", together),
        )
        young = _format_samples_cell(saving.young[key]) if key in saving.young else _ABSENT
        rows.append([title, *cells, young, f"{at / floor:.2f}", f"{at / own_median:.2f}"])
    titles = [*(f"turn {turn:,}" for turn in results.plan.turns), f"turn 1 again, beside {results.plan.turns[-1]:,}"]
    ratios = [f"× hand-written SQL at turn {together}", f"× append_checkpoint at turn {together}"]
    yield from _format_table(["", *titles, *ratios], rows)
    yield (
        f"The {results.plan.window} saves up to the turn; for turn {results.plan.turns[0]} the first ones. "
        f"† Every save writes the whole transcript: the session was not driven there turn by turn but holds only these "
        f"{results.plan.jumped_window} versions. The delta channel writes the whole list every 100th time: "
        f"{saving.costs['delta', together].samples.slowest_ms:.1f} ms was its slowest save up to turn {together}."
    )
    yield ""


def _format_disk_size_section(results: RunResults, measured: DatabaseResults) -> Iterator[str]:
    yield f"### Bytes on disk after {results.plan.together} turns"
    yield ""
    sizes = measured.saving.bytes_on_disk
    own_bytes = sizes["append"]
    rows = [
        [title, f"{sizes[key] / 1e6:.2f} MB", f"{sizes[key] / results.said:.2f}", f"{sizes[key] / own_bytes:.2f}"]
        for key, title in results.contenders.items()
        if key in sizes
    ]
    yield from _format_table(["", "on disk", "× what was said", "× append_checkpoint"], rows)
    yield (
        f"What was said: {results.said / 1e6:.2f} MB of compact JSON. On disk: what a database grew by that already "
        "held a short session, with indexes and dead rows, nothing vacuumed."
    )
    yield ""


def _format_loading_section(results: RunResults, measured: DatabaseResults) -> Iterator[str]:
    yield f"### Reading a session of {results.plan.turns[-1] * 3:,} messages"
    yield ""
    whole, tails = measured.loading.whole, measured.loading.tails
    floor = whole["statement"].median_ms
    rows = [
        [
            title,
            _format_samples_cell(whole[key]),
            f"{whole[key].median_ms / floor:.2f}",
            _format_samples_cell(tails[key]) if key in tails else _ABSENT,
        ]
        for key, title in results.contenders.items()
        if key in whole
    ]
    yield from _format_table(["", "newest version", "× hand-written SQL", "last 50 messages"], rows)


def _format_tool_calls_section(results: RunResults, measured: DatabaseResults) -> Iterator[str]:
    yield "### One tool call: intent and result"
    yield ""
    floor = measured.calls["statement"].median_ms
    rows = [
        [title, _format_samples_cell(measured.calls[key]), f"{measured.calls[key].median_ms / floor:.2f}"]
        for key, title in results.callers.items()
        if key in measured.calls
    ]
    yield from _format_table(["", "both writes", "× two bare commits"], rows)


def _format_concurrent_agents_section(results: RunResults, measured: DatabaseResults) -> Iterator[str]:
    yield "### Many agents in one process"
    yield ""
    rows = []
    for key, title in results.agent_groups.items():
        row = [title]
        for agents in results.plan.agents:
            share = measured.agents.get_median_ratio(key, "statement", agents)
            row.append(f"**{measured.agents.get_median(key, agents):,.0f}** ({share:.2f})")
        rows.append(row)
    yield from _format_table(
        ["saves a second (of the raw rate)", *(_format_count(agents, "agent") for agents in results.plan.agents)], rows
    )


def _format_processes_section(results: RunResults, measured: DatabaseResults) -> Iterator[str]:
    yield "### Many processes"
    yield ""
    counts = (1, results.plan.processes)
    rows = []
    for key, title in (("library", "**append_checkpoint**"), ("statement", results.contenders["statement"])):
        cells = [
            f"**{measured.processes.get_median(key, count):,.0f}** "
            f"({measured.processes.get_median_ratio(key, 'statement', count):.2f})"
            for count in counts
        ]
        rows.append([title, *cells])
    yield from _format_table(
        ["saves a second (of the raw rate)", *(_format_count(count, "process") for count in counts)], rows
    )


def _format_fresh_process_section(measured: DatabaseResults) -> Iterator[str]:
    yield "### A fresh process"
    yield ""
    names = {"setup": "`django.setup()` with the app", "save": "**import, open, start a session, first save**"}
    floor = measured.fresh["setup"].median_ms
    rows = [
        [names[way], _format_samples_cell(samples), f"{samples.median_ms / floor:.2f}"]
        for way, samples in measured.fresh.items()
    ]
    yield from _format_table(["", "until done", "× `django.setup()`"], rows)


def _format_samples_cell(samples: DurationSamples) -> str:
    digits = 2 if samples.median_ms < 100 else 0
    return f"**{samples.median_ms:,.{digits}f}** ({samples.fastest_ms:,.{digits}f} – {samples.p95_ms:,.{digits}f})"


def _format_count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}es" if noun.endswith("s") else f"{count} {noun}s"


def _format_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""
