/** One session that this process owns: versions, calls, the end. */

import { randomUUID } from "node:crypto";
import type { components } from "./api.js";
import {
  ApprovalRequired,
  buildReviewRequired,
  HarnessError,
  OwnershipLost,
  ResultNotRecorded,
  ServerUnavailable,
  type UndecidedCall,
} from "./errors.js";
import { type Args, isLogged, isOutcomeUnknown, runTool, type Tool, type Tools, type VerifyAnswer } from "./tools.js";
import { escapeId, requireJson, sleep, type Transport } from "./transport.js";

type Schemas = components["schemas"];
type Opening = Schemas["Opening"];
type Issued = Schemas["IssuedCall"] | Schemas["AnsweredCall"] | Schemas["RunningCall"];
type CallCard = Schemas["CallCard"];

/** Seconds of one wait for a person. */
const WAIT_SECONDS = 30;
const RUNNING_MILLISECONDS = 50;
/** Number of attempts to record a result: the tool has run, and its result matters. */
const RECORD_ATTEMPTS = 3;

export type Message = Record<string, unknown>;

/** Fields of a version beside its messages. What is left out stays as it was. */
export interface VersionFields {
  plan?: Record<string, unknown> | null;
  budget_spent_usd?: number | string;
  usage?: Record<string, unknown> | null;
  payload?: Record<string, unknown> | null;
}

/** Answer to one call. */
export interface ToolResult {
  callId: string;
  /** Text that the model gets. */
  content: string;
  isError: boolean;
  /** Whether nothing ran now, and the content is the stored one. */
  replayed: boolean;
  attempt: number;
}

export interface DispatchOptions {
  step?: number;
  /** `wait` waits for a person's approval; otherwise `ApprovalRequired` is thrown. */
  approval?: "wait" | "throw";
}

export interface OpenOptions {
  agent?: string;
  userMessage?: string;
  title?: string;
  labels?: string[];
  metadata?: Record<string, unknown>;
  tools?: Tools;
  /** Wait at the gate until people have decided. */
  wait?: boolean;
  /** Longest wait at the gate in seconds. */
  timeout?: number;
  /** End a run that still gives signs of life; a text is the reason for the audit trail. */
  takeover?: boolean | string;
}

/** Start or resume a session, and own it. */
export async function openSession(transport: Transport, sessionId: string, options: OpenOptions): Promise<Session> {
  const fields = {
    session_id: sessionId,
    hold: true,
    agent: options.agent ?? "",
    user_message: options.userMessage ?? "",
    title: options.title ?? null,
    labels: options.labels ?? [],
    metadata: options.metadata ?? null,
    takeover: options.takeover ?? false,
    process: { host: `node ${process.version}`, pid: process.pid },
  };
  let opening = (await transport.write<Opening>("POST", "/sessions", fields)).value;
  const session = new Session(transport, sessionId, options.tools ?? {}, opening);
  const deadline = options.timeout === undefined ? Infinity : Date.now() + options.timeout * 1_000;
  const probed = new Set<number>();
  try {
    while (opening.point === null) {
      const wasProbed = await session.probeAll(opening.undecided, probed);
      const left = (deadline - Date.now()) / 1_000;
      if (!wasProbed && (!options.wait || left <= 0)) throw buildReviewRequired(sessionId, opening.undecided);
      opening = await session.lookAtGate(wasProbed ? 0 : Math.max(1, Math.min(WAIT_SECONDS, Math.ceil(left))));
    }
  } catch (error) {
    await session.release().catch(() => undefined);
    throw error;
  }
  session.passGate(opening.point);
  return session;
}

export class Session {
  /** Number of the newest version. */
  version = 0;
  /** Messages, plan and results that the run continues from. */
  point!: Schemas["Point"];
  finished = false;
  private readonly fence: number;
  private readonly path: string;
  private heartbeat: NodeJS.Timeout | undefined;
  private lost: HarnessError | undefined;

  /** @internal Use `Harness.open`. */
  constructor(
    private readonly transport: Transport,
    readonly sessionId: string,
    private readonly tools: Tools,
    opening: Opening,
  ) {
    this.path = `/sessions/${escapeId(sessionId)}`;
    this.fence = opening.run?.fence ?? 0;
    if (opening.run !== null) this.startHeartbeat(opening.run.lease_seconds);
  }

  /** @internal */
  passGate(point: Schemas["Point"]): void {
    this.point = point;
    this.version = point.version;
    this.finished = point.finished;
    if (point.finished) this.stopHeartbeat();
  }

  /** @internal */
  lookAtGate(seconds: number): Promise<Opening> {
    return this.transport.read<Opening>(`${this.path}/gate`, { fence: this.fence, wait: seconds });
  }

  /** Save the next version from the messages that are new. Returns its number. */
  append(messages: Message[], fields: VersionFields = {}): Promise<number> {
    return this.saveVersion("append", messages, fields);
  }

  /** Save the next version from a whole transcript, which may be an edited or a compacted one. Returns its number. */
  save(transcript: Message[], fields: VersionFields = {}): Promise<number> {
    return this.saveVersion("replace", transcript, fields);
  }

  /**
   * Make one call. Its intent is logged before the tool runs, and its outcome after. A completed call of the same key is
   * answered from the log, and the tool does not run.
   *
   * @throws {ReviewRequired} A person has to decide about an earlier attempt. Nothing was run again.
   * @throws {ApprovalRequired} The call needs approval, and `approval` is not `wait`.
   * @throws {OwnershipLost} Another run has taken the session over.
   * @throws {ResultNotRecorded} The tool ran, and its result could not be stored.
   */
  async dispatch(name: string, args: Args, callId: string, options: DispatchOptions = {}): Promise<ToolResult> {
    const tool = Object.hasOwn(this.tools, name) ? this.tools[name] : undefined;
    const result = { callId, isError: false, replayed: false, attempt: 1 };
    if (tool === undefined) return { ...result, content: `There is no tool '${name}'. Nothing was run.`, isError: true };
    requireJson(args, "args");
    if (!isLogged(tool)) {
      try {
        return { ...result, content: toText(await runTool(tool, args)) };
      } catch (error) {
        return { ...result, content: describeError(name, error), isError: true };
      }
    }
    const issued = await this.issue(name, tool, args, callId, options);
    if (issued.state === "answered") {
      return { ...result, content: issued.content, isError: issued.is_error, replayed: issued.replayed, attempt: issued.attempt };
    }
    return { ...(await this.execute(name, tool, args, issued as Schemas["IssuedCall"])), callId };
  }

  /** Read a page of the transcript, oldest message first. */
  async messages(after = 0, limit = 100): Promise<Schemas["ListedMessage"][]> {
    return (await this.transport.read<Schemas["MessagePage"]>(`${this.path}/messages`, { after, limit })).messages;
  }

  /** End the session with a result. */
  async finish(status: "completed" | "failed" | "cancelled", result: unknown = null): Promise<void> {
    this.requireOwned();
    await this.guard(this.transport.write("POST", `${this.path}/finish`, { fence: this.fence, status, result }));
    this.finished = true;
    this.stopHeartbeat();
  }

  /** Let another process continue at once. A second call does nothing. */
  async release(): Promise<void> {
    if (this.heartbeat === undefined) return;
    this.stopHeartbeat();
    if (this.lost === undefined) await this.transport.write("POST", `${this.path}/release`, { fence: this.fence });
    this.lost ??= new OwnershipLost("NotOwner", `Session '${this.sessionId}' was released.`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  // calls

  private async issue(name: string, tool: Tool, args: Args, callId: string, options: DispatchOptions): Promise<Issued> {
    const policy = tool.idempotency ?? "once";
    const fields = {
      fence: this.fence,
      call_id: callId,
      tool: name,
      args,
      side_effects: tool.sideEffects ?? ["mutate"],
      idempotency: typeof policy === "function" ? "function" : policy,
      ...(typeof policy === "function" ? { key: policy(args) } : {}),
      scope: tool.scope ?? "session",
      sentence: tool.sentence ?? "",
      verifiable: tool.verify !== undefined,
      requires_approval: tool.requiresApproval ?? false,
      approvals: tool.approvals ?? 1,
      ...(tool.decideWithin === undefined ? {} : { decide_within: tool.decideWithin }),
      ...(tool.risk === undefined ? {} : { risk: tool.risk }),
      ...(options.step === undefined ? {} : { step: options.step }),
    };
    let key = randomUUID();
    for (;;) {
      this.requireOwned();
      try {
        const { value } = await this.guard(this.transport.write<Issued>("POST", `${this.path}/calls`, fields, key));
        if (value.state !== "running") return value;
        await sleep(RUNNING_MILLISECONDS);
      } catch (error) {
        if (!(error instanceof ApprovalRequired) || options.approval !== "wait") throw error;
        for (const call of error.calls) await this.waitForDecision(call);
        key = randomUUID();
      }
    }
  }

  private async waitForDecision(call: UndecidedCall): Promise<void> {
    const { step, attempt, revision } = call;
    const place = { ...(step === null ? {} : { step }), attempt, revision, wait: WAIT_SECONDS };
    await this.transport.read<CallCard>(this.callPath(call.call_id), place);
  }

  private async execute(name: string, tool: Tool, args: Args, issued: Schemas["IssuedCall"]): Promise<ToolResult> {
    const { attempt } = issued;
    const actual = issued.args_json === null ? args : (JSON.parse(issued.args_json) as Args);
    let content: string;
    try {
      content = toText(await runTool(tool, actual));
    } catch (error) {
      const text = describeError(name, error);
      const isUnknown = (tool.leavesOutcomeUnknown ?? isOutcomeUnknown)(error);
      const errorType = error instanceof Error ? error.name : typeof error;
      const errorMessage = error instanceof Error ? error.message : String(error);
      const failure = { error_type: errorType, error_message: errorMessage };
      if (isUnknown) await this.recordOutcome(issued, { status: "interrupted", reason: "ambiguous_error", ...failure }, text);
      else await this.recordOutcome(issued, { status: "failed", result: text, ...failure }, text);
      if (isUnknown) return this.resolveUnknown(tool, issued);
      return { callId: issued.call_id, content: text, isError: true, replayed: false, attempt };
    }
    await this.recordOutcome(issued, { status: "completed", result: content }, content);
    return { callId: issued.call_id, content, isError: false, replayed: false, attempt };
  }

  private async recordOutcome(
    issued: Schemas["IssuedCall"],
    outcome: Pick<Schemas["CallOutcome"], "status" | "result" | "error_type" | "error_message" | "reason">,
    content: string,
  ): Promise<void> {
    const { step, attempt } = issued;
    const fields = { fence: this.fence, step, attempt, ...outcome };
    const key = randomUUID();
    for (let left = RECORD_ATTEMPTS; ; left -= 1) {
      try {
        await this.guard(this.transport.write("PATCH", this.callPath(issued.call_id), fields, key));
        return;
      } catch (error) {
        const isTemporary = error instanceof ServerUnavailable || (error instanceof HarnessError && error.status >= 500);
        if (!isTemporary) throw error;
        if (left <= 1) throw new ResultNotRecorded(content, { cause: error });
      }
    }
  }

  /** Ask the tool's verify hook about the call; if it cannot tell, a person has to decide. */
  private async resolveUnknown(tool: Tool, issued: Schemas["IssuedCall"]): Promise<ToolResult> {
    const place = { step: issued.step, attempt: issued.attempt };
    let call = await this.transport.read<CallCard>(this.callPath(issued.call_id), place);
    if (tool.verify !== undefined && call.status === "interrupted") {
      await this.probe(call, tool);
      call = await this.transport.read<CallCard>(this.callPath(issued.call_id), place);
    }
    if (call.undecided) throw buildReviewRequired(this.sessionId, [call]);
    const isError = call.status !== "completed";
    return { callId: issued.call_id, content: call.result_text ?? "", isError, replayed: false, attempt: issued.attempt };
  }

  /** @internal Ask the verify hooks that this process has. Returns whether any was asked. */
  async probeAll(undecided: UndecidedCall[], probed: Set<number>): Promise<boolean> {
    let wasAsked = false;
    for (const call of undecided) {
      const tool = Object.hasOwn(this.tools, call.tool_name) ? this.tools[call.tool_name] : undefined;
      if (tool?.verify === undefined || call.status !== "interrupted" || probed.has(call.number)) continue;
      probed.add(call.number);
      await this.probe(call, tool);
      wasAsked = true;
    }
    return wasAsked;
  }

  private async probe(call: UndecidedCall, tool: Tool): Promise<void> {
    let answer: VerifyAnswer;
    try {
      answer = (await tool.verify?.(JSON.parse(call.args_json) as Args)) ?? { answer: "unknown", why: "the verify hook returned nothing" };
    } catch (error) {
      answer = { answer: "unknown", why: describeError("The verify hook", error) };
    }
    const { step, attempt, revision } = call;
    const fields = { fence: this.fence, step, attempt, revision, ...answer };
    await this.guard(this.transport.write("POST", `${this.callPath(call.call_id)}/probe`, fields));
  }

  // ownership

  private async saveVersion(mode: "append" | "replace", messages: Message[], fields: VersionFields): Promise<number> {
    this.requireOwned();
    const body = { ...fields, fence: this.fence, mode, messages, expected_version: this.version };
    const { value } = await this.guard(this.transport.write<Schemas["VersionNumber"]>("POST", `${this.path}/versions`, body));
    this.version = value.version;
    return value.version;
  }

  private callPath(callId: string): string {
    return `${this.path}/calls/${escapeId(callId)}`;
  }

  private requireOwned(): void {
    if (this.lost !== undefined) throw this.lost;
  }

  /** Note that another run has taken the session over, so that nothing runs any more. */
  private async guard<T>(answer: Promise<T>): Promise<T> {
    try {
      return await answer;
    } catch (error) {
      if (error instanceof OwnershipLost) {
        this.lost = error;
        this.stopHeartbeat();
      }
      throw error;
    }
  }

  private startHeartbeat(leaseSeconds: number): void {
    this.heartbeat = setInterval(() => {
      const beat = this.transport.renewLease(`${this.path}/heartbeat`, this.fence);
      this.guard(beat).catch(() => undefined); // the next one, or the next write, says it again
    }, (leaseSeconds * 1_000) / 3);
    this.heartbeat.unref();
  }

  private stopHeartbeat(): void {
    clearInterval(this.heartbeat);
    this.heartbeat = undefined;
  }
}

function toText(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value) ?? "null");
}

function describeError(name: string, error: unknown): string {
  return error instanceof Error ? `${name} raised ${error.name}: ${error.message}` : `${name} raised ${String(error)}`;
}
