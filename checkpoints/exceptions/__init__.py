"""Every error this library raises. Each says what happened, to what, and what to do next."""

from checkpoints.exceptions.base import CheckpointsError
from checkpoints.exceptions.calls import (
    ApprovalRequired,
    CallAlreadySettled,
    CallConflict,
    CallError,
    CallInProgress,
    LateResultRefused,
    RegistryNotBound,
    ResultNotRecorded,
    ReviewRequired,
)
from checkpoints.exceptions.decisions import (
    AlreadyDecided,
    DecisionExpired,
    DecisionRefused,
    NotPermitted,
    NotUndecided,
    ReasonRequired,
    SecondPersonRequired,
    StaleRevision,
)
from checkpoints.exceptions.files import (
    FileDamaged,
    FileError,
    FileNotReadable,
    FileNotWritten,
    ImportConflict,
    WrongSession,
    WrongWorkspace,
)
from checkpoints.exceptions.input import (
    InvalidArguments,
    InvalidDatabaseUrl,
    InvalidIdentifier,
    InvalidInput,
    NotRepresentable,
    SessionExists,
    StillNeeded,
    TooLarge,
)
from checkpoints.exceptions.missing import (
    CallNotFound,
    NotFound,
    RunNotFound,
    SessionNotFound,
    VersionNotFound,
    WorkspaceNotFound,
)
from checkpoints.exceptions.ownership import (
    AtGate,
    CheckpointerClosed,
    NotOwner,
    OwnershipError,
    OwnershipLost,
    SessionBusy,
    SessionFinished,
    VersionConflict,
)
from checkpoints.exceptions.peers import (
    NotPaused,
    PausedForPeers,
    PeerCallExists,
    PeerCallNotFound,
    PeerCallOver,
    PeerError,
    SecretsLocked,
    StillWaiting,
)
from checkpoints.exceptions.storage import (
    BlockingCallInAsyncCode,
    ConnectionFailed,
    DatabaseNotConfigured,
    DriverMissing,
    InsideTransaction,
    MigrationsMissing,
    NotDurable,
    StorageBusy,
    StorageError,
    StorageFull,
    StorageReadOnly,
    StorageUnavailable,
)
from checkpoints.exceptions.stored import CheckpointCorrupted, SchemaFromFuture
from checkpoints.exceptions.workflows import DuplicateStep, StepIdentityChanged, StepRejected, WorkflowError

__all__ = [
    "AlreadyDecided",
    "ApprovalRequired",
    "AtGate",
