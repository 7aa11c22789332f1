/** Client of a Harness server: durable agent sessions, and tool calls that are never silently done twice. */

import { openSession, type OpenOptions, type Session } from "./session.js";
import { escapeId, type Parameters, Transport } from "./transport.js";

export type { components, operations, paths } from "./api.js";
export * from "./errors.js";
export { type DispatchOptions, type Message, type OpenOptions, Session, type ToolResult, type VersionFields } from "./session.js";
export { type Args, isOutcomeUnknown, type Tool, type Tools, type VerifyAnswer } from "./tools.js";
export { escapeId };

export interface HarnessOptions {
  /** Function that makes the requests. Left out: the `fetch` of the platform. */
  fetch?: typeof fetch;
  /** Pauses in milliseconds before a request is repeated whose answer was lost. */
  pauses?: readonly number[];
}

export class Harness {
  private readonly transport: Transport;

  /**
   * @param url Address of the site.
   * @param token API token: the role `agent` drives sessions, `approver` decides.
   */
  constructor(url: string, token: string, options: HarnessOptions = {}) {
    this.transport = new Transport(url, token, options.fetch, options.pauses);
  }

  /**
   * Start or resume a session, and own it until it is released or finished.
   *
   * @throws {ReviewRequired} A person has to decide about calls of an earlier run, and `wait` is not set.
   * @throws {SessionBusy} Another live run owns the session.
   */
  open(sessionId: string, options: OpenOptions = {}): Promise<Session> {
    return openSession(this.transport, sessionId, options);
  }

  /** Request any resource of the HTTP API: `path` is below `/api/v1`. */
  read<T>(path: string, parameters: Parameters = {}): Promise<T> {
    return this.transport.read<T>(path, parameters);
  }

  /** Do any write of the HTTP API, once: it is sent with a key, and repeated with the same one if its answer is lost. */
  async write<T>(method: "POST" | "PATCH" | "DELETE", path: string, fields: object): Promise<T> {
    return (await this.transport.write<T>(method, path, fields)).value;
  }
}
