/** Tools of an agent, and what has to be known about them to call them safely. */

export type Args = Record<string, unknown>;

/** Answer of a verify hook: the effect happened, it did not, or the hook cannot tell. */
export type VerifyAnswer =
  | { answer: "landed"; result?: unknown }
  | { answer: "not_landed" }
  | { answer: "unknown"; why?: string };

/** Function that an agent may call. */
export interface Tool {
  /** The function. Its result is text, or a JSON value that becomes text. */
  run(args: any): unknown | Promise<unknown>;
  /** `read` is not logged; `write` and `mutate` are logged before they run. Left out: `mutate`. */
  sideEffects?: ("read" | "write" | "mutate")[];
  /** Finds out what became of an interrupted call. */
  verify?(args: any): VerifyAnswer | Promise<VerifyAnswer>;
  /** Says which calls are the same operation. Left out: `once`. A function makes the key from the arguments. */
  idempotency?: "once" | "unanswered" | "call" | ((args: any) => string);
  scope?: "session" | "workspace";
  requiresApproval?: boolean;
  approvals?: number;
  /** Seconds for a decision. */
  decideWithin?: number;
  /** Longest run time in milliseconds. When it is over, the outcome is unknown. */
  timeout?: number;
  /** Format string over the arguments that says what a call does. */
  sentence?: string;
  risk?: "low" | "medium" | "high";
  /** Whether an error leaves it open if the effect happened. Left out: `isOutcomeUnknown`. */
  leavesOutcomeUnknown?(error: unknown): boolean;
}

export type Tools = Record<string, Tool>;

export const isLogged = (tool: Tool): boolean => (tool.sideEffects ?? ["mutate"]).some((effect) => effect !== "read");

const AMBIGUOUS = /Time(d)?out|Connect|Network|Transport|Disconnect|BrokenPipe|Abort|Unavailable|ECONN|EPIPE|ETIMEDOUT|UND_ERR/;

/** Return whether an error leaves the effect of a tool unknown: a timeout, a lost connection, an abortion. */
export function isOutcomeUnknown(error: unknown): boolean {
  for (let link = error; link instanceof Error; link = link.cause) {
    const code = (link as { code?: unknown }).code;
    if (AMBIGUOUS.test(link.name) || AMBIGUOUS.test(link.constructor.name)) return true;
    if (typeof code === "string" && AMBIGUOUS.test(code)) return true;
    if (link instanceof TypeError && link.message === "fetch failed") return true;
  }
  return false;
}

/** Run a tool within its time. */
export async function runTool(tool: Tool, args: Args): Promise<unknown> {
  if (tool.timeout === undefined) return tool.run(args);
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new DOMException("The tool did not end in time.", "TimeoutError")), tool.timeout);
  });
  try {
    return await Promise.race([Promise.resolve(tool.run(args)), late]);
  } finally {
    clearTimeout(timer);
  }
}
