"""Why a decision was not recorded, as the card says it: what happened, what became of it, what to do now."""

from dataclasses import dataclass

from checkpoints.exceptions import (
    AlreadyDecided,
    CheckpointsError,
    InvalidInput,
    NotPermitted,
    NotUndecided,
    StaleRevision,
    StorageError,
)
from harness_site import wording


@dataclass(frozen=True, slots=True)
class Problem:
    """`status` is the HTTP status it is answered with."""

    status: int
    what: str
    todo: str


def problem(error: CheckpointsError, *, nothing: str = "Your decision was not recorded.") -> Problem:
    """The words for an error of the library; `nothing` says what did not happen because of it."""
    if isinstance(error, AlreadyDecided):
        return Problem(
            409,
            f"{error.by} decided this first, at {wording.exact(error.at)}: {error.kind.lower()}.",
            f"{nothing} Nothing was changed. What was decided stands beside this; if you know better, tell them.",
        )
    if isinstance(error, StaleRevision):
        return Problem(
            409,
            f"Something new was recorded about this call while you were deciding (revision {error.given}, now "
            f"{error.current}).",
            f"{nothing} Look at what is known once more; what you typed is still in the form, and sending it again "
            "decides on what you see now.",
        )
    if isinstance(error, NotUndecided):
        return Problem(
            409,
            f"This call is not open for a decision: it is {wording.state(error.status)[1].lower()}.",
            f"{nothing} Nothing was changed.",
        )
    if isinstance(error, NotPermitted):
        return Problem(403, error.detail, error.hint)
    status = 422 if isinstance(error, InvalidInput) else 503 if isinstance(error, StorageError) else 409
    return Problem(status, error.detail, error.hint)
