/** Errors of the client. Each problem of the server is a `HarnessError` whose `type` is the name of its exception. */

import type { components } from "./api.js";

export type UndecidedCall = components["schemas"]["UndecidedCall"] | components["schemas"]["CallCard"];

/** Facts about an error. */
export interface ErrorFacts {
  status?: number;
  hint?: string;
  /** Whether a write may have happened in spite of the error. */
  mayHaveHappened?: boolean;
  /** Attributes of the server's exception. */
  facts?: Record<string, unknown>;
}

/** Base of all errors of this client. */
export class HarnessError extends Error {
  readonly status: number;
  readonly hint: string;
  readonly mayHaveHappened: boolean;
  readonly facts: Record<string, unknown>;

  constructor(
    readonly type: string,
    message: string,
    facts: ErrorFacts = {},
    options?: ErrorOptions,
  ) {
    super(facts.hint ? `${message} ${facts.hint}` : message, options);
    this.name = type;
    this.status = facts.status ?? 0;
    this.hint = facts.hint ?? "";
    this.mayHaveHappened = facts.mayHaveHappened ?? false;
    this.facts = facts.facts ?? {};
  }
}

/** A person has to decide about calls whose outcome is unknown. Nothing was run again. */
export class ReviewRequired extends HarnessError {
  get calls(): UndecidedCall[] {
    return Array.isArray(this.facts.calls) ? (this.facts.calls as UndecidedCall[]) : [];
  }
}

/** A person has to approve calls before they run for the first time. Nothing was run. */
export class ApprovalRequired extends ReviewRequired {}

/** Another run has taken the session over, or this one has released it. */
export class OwnershipLost extends HarnessError {}

/** Another live run owns the session. */
export class SessionBusy extends HarnessError {}

/** The server did not answer. `mayHaveHappened` says whether a write may be there. */
export class ServerUnavailable extends HarnessError {}

/** The tool has run, and its result could not be stored. Do not run it again. `content` is the result. */
export class ResultNotRecorded extends HarnessError {
  constructor(
    readonly content: string,
    options?: ErrorOptions,
  ) {
    super("ResultNotRecorded", "The tool has run, and its result could not be stored.", { mayHaveHappened: true }, options);
  }
}

type ErrorClass = new (type: string, message: string, facts?: ErrorFacts, options?: ErrorOptions) => HarnessError;
const CLASSES: Record<string, ErrorClass> = {
  ReviewRequired,
  ApprovalRequired,
  OwnershipLost,
  NotOwner: OwnershipLost,
  SessionBusy,
};

/** Build the error that a problem document names; its facts include the seconds of the header `Retry-After`. */
export function buildError(problem: components["schemas"]["Problem"], retryAfter: string | null): HarnessError {
  const { type, detail, status, hint, may_have_happened: mayHaveHappened } = problem;
  const facts = retryAfter === null ? problem.facts : { retry_after: retryAfter, ...problem.facts };
  const Class = CLASSES[type] ?? HarnessError;
  return new Class(type, detail, { status, hint, mayHaveHappened, facts });
}

/** Build the error about undecided calls. */
export function buildReviewRequired(sessionId: string, calls: UndecidedCall[]): ReviewRequired {
  const isUnknown = calls.some((call) => call.status === "interrupted");
  const names = calls.map((call) => `${call.tool_name} (${call.call_id})`).join(", ");
  return isUnknown
    ? new ReviewRequired("ReviewRequired", `In session '${sessionId}' it is unknown whether this happened: ${names}.`, { facts: { calls } })
    : new ApprovalRequired("ApprovalRequired", `In session '${sessionId}' this waits for approval: ${names}.`, { facts: { calls } });
}
