/** Requests to the HTTP API. A write is sent with a key; if its answer is lost, it is sent again with the same key. */

import { randomUUID } from "node:crypto";
import type { components } from "./api.js";
import { buildError, HarnessError, ServerUnavailable } from "./errors.js";

/** Pauses in milliseconds before a request is repeated whose answer was lost. */
const PAUSES = [100, 500, 2_000];
const ANSWER_MILLISECONDS = 60_000;
/** A heartbeat without an answer is given up before the lease ends, and the next one is sent. */
const HEARTBEAT_MILLISECONDS = 10_000;
/** Longest wait that a server can ask for with `Retry-After`. */
const MAX_RETRY_AFTER_MILLISECONDS = 5_000;
/** Errors after which the same request is sent again. */
const TRANSIENT = new Set(["RequestInProgress", "RateLimited"]);
const SERVICE_UNAVAILABLE = 503;
/** Errors of a connection that was never made: nothing was sent. */
const NOT_SENT = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "UND_ERR_CONNECT_TIMEOUT"]);

export type Parameters = Record<string, string | number | boolean | undefined>;

export interface Answer<T> {
  status: number;
  value: T;
}

export const sleep = (milliseconds: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, milliseconds));

export class Transport {
  /** Name of this process: what it opens is its own. */
  readonly name = randomUUID();

  constructor(
    private readonly url: string,
    private readonly token: string,
    private readonly fetchFunction: typeof fetch = fetch,
    private readonly pauses: readonly number[] = PAUSES,
  ) {
    if (!token) throw new HarnessError("InvalidInput", "A server needs a token.");
    this.url = `${new URL(url).toString().replace(/\/+$/, "")}/api/v1`;
  }

  /** Request a resource. */
  async read<T>(path: string, parameters: Parameters = {}): Promise<T> {
    const given = Object.entries(parameters).filter(([, value]) => value !== undefined);
    const query = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
    const wait = Number(parameters.wait ?? 0) * 1_000;
    return (await this.send<T>("GET", query ? `${path}?${query}` : path, undefined, {}, wait)).value;
  }

  /** Do a write, once: all its attempts have the same `key`. */
  async write<T>(method: string, path: string, fields: object, key: string = randomUUID()): Promise<Answer<T>> {
    requireJson(fields, "request");
    return this.send<T>(method, path, JSON.stringify(fields), { "Idempotency-Key": key }, 0);
  }

  /** Send a heartbeat once. It has no key, as it may arrive twice. */
  async renewLease(path: string, fence: number): Promise<void> {
    await this.sendOnce("POST", path, JSON.stringify({ fence }), {}, HEARTBEAT_MILLISECONDS);
  }

  private async send<T>(method: string, path: string, body: string | undefined, headers: Record<string, string>, wait: number): Promise<Answer<T>> {
    let mayHaveHappened = false;
    for (const pause of [...this.pauses, undefined]) {
      let retryAfter = 0;
      try {
        return await this.sendOnce<T>(method, path, body, headers, ANSWER_MILLISECONDS + wait);
      } catch (error) {
        if (error instanceof ConnectionLost) {
          mayHaveHappened ||= method !== "GET" && error.wasSent;
          if (pause === undefined) {
            throw new ServerUnavailable("ServerUnavailable", `${this.url} did not answer.`, { mayHaveHappened }, { cause: error.cause });
          }
        } else if (error instanceof HarnessError && (TRANSIENT.has(error.type) || error.status === SERVICE_UNAVAILABLE)) {
          mayHaveHappened ||= method !== "GET" && error.mayHaveHappened;
          if (pause === undefined) throw withMayHaveHappened(error, mayHaveHappened);
          retryAfter = Math.min((Number(error.facts.retry_after) || 0) * 1_000, MAX_RETRY_AFTER_MILLISECONDS);
        } else {
          throw error;
        }
      }
      await sleep(Math.max(pause, retryAfter));
    }
    throw new Error("unreachable");
  }

  private async sendOnce<T>(method: string, path: string, body: string | undefined, headers: Record<string, string>, timeout: number): Promise<Answer<T>> {
    let response: Response;
    let text: string;
    try {
      response = await this.fetchFunction(this.url + path, {
        method,
        headers: {
          Authorization: `Bearer ${this.token}`,
          "Harness-Client": this.name,
          "Content-Type": "application/json",
          ...headers,
        },
        body: body ?? null,
        signal: AbortSignal.timeout(timeout),
      });
      text = await response.text();
    } catch (error) {
      throw new ConnectionLost(error);
    }
    if (response.status === 502 || response.status === 504) throw new ConnectionLost(new Error(`a proxy answered ${response.status}`));
    const value = parse(text);
    if (response.ok) return { status: response.status, value: value as T };
    if (isProblem(value)) throw buildError(value, response.headers.get("Retry-After"));
    throw new HarnessError("ServerFailed", `The server answered ${response.status}.`, { status: response.status, mayHaveHappened: true });
  }
}

/** Connection that ended before its answer. */
class ConnectionLost extends Error {
  readonly wasSent: boolean;

  constructor(cause: unknown) {
    super("The connection was lost.", { cause });
    const inner = cause instanceof Error ? (cause.cause ?? cause) : cause;
    this.wasSent = !NOT_SENT.has(String((inner as { code?: unknown } | undefined)?.code));
  }
}

/** Return the error of the last attempt, which says whether any attempt may have written. */
function withMayHaveHappened(error: HarnessError, mayHaveHappened: boolean): HarnessError {
  if (mayHaveHappened === error.mayHaveHappened) return error;
  return new HarnessError(error.type, error.message, { status: error.status, mayHaveHappened, facts: error.facts }, { cause: error });
}

function parse(text: string): unknown {
  try {
    return text ? JSON.parse(text) : null;
  } catch {
    return undefined;
  }
}

function isProblem(value: unknown): value is components["schemas"]["Problem"] {
  return typeof value === "object" && value !== null && "type" in value && "detail" in value;
}

/** Require a value with an exact JSON form: what `JSON.stringify` would leave out or change is refused. */
export function requireJson(value: unknown, path: string): void {
  if (value === null || typeof value === "string" || typeof value === "boolean") return;
  if (typeof value === "number") {
    if (Number.isFinite(value)) return;
  } else if (Array.isArray(value)) {
    value.forEach((item, position) => requireJson(item, `${path}[${position}]`));
    return;
  } else if (typeof value === "object" && [Object.prototype, null].includes(Object.getPrototypeOf(value))) {
    for (const [name, item] of Object.entries(value)) if (item !== undefined) requireJson(item, `${path}.${name}`);
    return;
  }
  throw new HarnessError("NotRepresentable", `${path} has no exact JSON form.`);
}

/** Write an identifier as one part of a path. */
export function escapeId(identifier: string): string {
  const escaped = identifier.replaceAll("~", "~0").replaceAll("/", "~1");
  return encodeURIComponent(/^\.+$/.test(escaped) ? escaped.replaceAll(".", "~2") : escaped);
}
