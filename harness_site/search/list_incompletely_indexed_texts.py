"""Texts that are not indexed, or only in part."""

from __future__ import annotations

from dataclasses import dataclass

from checkpoints.models import Session
from harness_site.search.models import Kind, Passage, Problem


@dataclass(frozen=True, slots=True)
class UnindexedText:
    """A text of a session: `position` is set for a message, `source` is the key of anything else."""

    session_pk: int
    session_id: str
    kind: Kind
    source: int
    position: int | None
    problem: Problem

    def __str__(self) -> str:
        source = f"{self.kind.label.lower()} {self.source if self.position is None else self.position}"
        return f"{source} of session {self.session_id}: {self.problem.label}"


@dataclass(frozen=True, slots=True)
class UnindexedTexts:
    """The first problems, and the number of all."""

    texts: tuple[UnindexedText, ...]
    total: int

    @property
    def omitted_count(self) -> int:
        return self.total - len(self.texts)


def list_incompletely_indexed_texts(workspace: int | None = None, *, limit: int = 20) -> UnindexedTexts:
    """List texts of a workspace, or of all, that are not indexed completely, newest first."""
    passages = Passage.objects.filter(problem__isnull=False)
    if workspace is not None:
        passages = passages.filter(workspace=workspace)
    rows = list(passages.order_by("-pk")[:limit])
    names = dict(Session.objects.filter(pk__in={row.session_id for row in rows}).values_list("pk", "session_id"))
    texts = tuple(
        UnindexedText(
            row.session_id, names[row.session_id], Kind(row.kind), row.source, row.position, Problem(str(row.problem))
        )
        for row in rows
        if row.session_id in names
    )
    return UnindexedTexts(texts, passages.count() if len(rows) == limit else len(texts))
