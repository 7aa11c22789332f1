// The client against a real server: HARNESS_URL, and tokens in AGENT and APPROVER.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { ApprovalRequired, escapeId, Harness, OwnershipLost, ResultNotRecorded, ReviewRequired, SessionBusy } from "../dist/index.js";

const url = process.env.HARNESS_URL;
const harness = new Harness(url, process.env.AGENT);
const approver = new Harness(url, process.env.APPROVER);

/** Start the agent of the story. Resolves to its exit code or signal, and what it printed. */
function runAgent(...args) {
  const child = spawn(process.execPath, [join(import.meta.dirname, "agent.mjs"), ...args], { stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  child.stdout.on("data", (data) => (output += data));
  child.stderr.on("data", (data) => (output += data));
  return new Promise((resolve) => child.on("close", (code, signal) => resolve({ end: signal ?? code, output })));
}

async function decide(sessionId, callId, kind, more = {}) {
  const path = `/sessions/${escapeId(sessionId)}/calls/${escapeId(callId)}`;
  const { revision, args_digest } = await approver.read(path);
  await approver.write("POST", `${path}/decision`, { kind, revision, args_digest, reason: "It is so.", ...more });
}

test("an agent that is killed in a payment is held, and a decision is used without a second payment", async () => {
  const effects = join(mkdtempSync(join(tmpdir(), "harness-")), "effects");
  assert.equal((await runAgent("story/1", effects, "die")).end, "SIGKILL");
  // The lease of the killed run has not ended, so the takeover is said.
  await assert.rejects(harness.open("story/1"), SessionBusy);
  await assert.rejects(harness.open("story/1", { takeover: "the process is gone" }), (error) => {
    assert.ok(error instanceof ReviewRequired && !(error instanceof ApprovalRequired));
    assert.deepEqual(error.calls.map((call) => call.call_id), ["call_1"]);
    return true;
  });
  const waiting = runAgent("story/1", effects, "wait");
  await decide("story/1", "call_1", "confirm_landed", { result: "refunded 40" });
  const { end, output } = await waiting;
  assert.equal(end, 0, output);
  assert.deepEqual(JSON.parse(output), { callId: "call_1", isError: false, replayed: true, attempt: 1, content: "refunded 40" });
  assert.equal(readFileSync(effects, "utf8"), "refund 17\n");
  assert.equal((await harness.read("/sessions/story~11")).status, "completed");
});

/** Open a session with one tool, `act`; count its runs. */
async function openWith(sessionId, tool, client = harness) {
  const runs = [];
  const tools = { act: { ...tool, run: (args) => (runs.push(args), tool.run(args)) } };
  const session = await client.open(sessionId, { tools });
  return { session, runs };
}

test("results, failures and unknown outcomes are logged", async () => {
  let fails = true;
  const { session, runs } = await openWith("outcomes", {
    run({ way }) {
      if (way === "fails" && fails) throw new RangeError("too much");
      if (way === "lost") throw Object.assign(new Error("socket hang up"), { code: "ECONNRESET" });
      return { way };
    },
  });
  const first = await session.dispatch("act", { way: "works" }, "c1");
  assert.deepEqual([first.content, first.replayed], ['{"way":"works"}', false]);
  assert.equal((await session.dispatch("act", { way: "works" }, "c1")).replayed, true);
  const failed = await session.dispatch("act", { way: "fails" }, "c2");
  assert.deepEqual([failed.content, failed.isError], ["act raised RangeError: too much", true]);
  fails = false;
  const again = await session.dispatch("act", { way: "fails" }, "c2");
  assert.deepEqual([again.isError, again.attempt], [false, 2]);
  for (let time = 0; time < 2; time += 1) await assert.rejects(session.dispatch("act", { way: "lost" }, "c3"), ReviewRequired);
  assert.equal(runs.length, 4);
  assert.match((await session.dispatch("nothing", {}, "c4")).content, /Nothing was run/);
  await assert.rejects(session.dispatch("act", { way: NaN }, "c5"), { name: "NotRepresentable" });
  await session.release();
});

test("a verify hook settles what it can tell", async () => {
  const { session } = await openWith("verified", {
    timeout: 20,
    run: () => new Promise((resolve) => setTimeout(resolve, 2_000).unref()),
    verify: ({ way }) => (way === "known" ? { answer: "landed", result: "it landed" } : { answer: "unknown", why: "nobody knows" }),
  });
  assert.equal((await session.dispatch("act", { way: "known" }, "c1")).content, "it landed");
  await assert.rejects(session.dispatch("act", { way: "unknown" }, "c2"), ReviewRequired);
  await session.release();
});

test("a call that needs approval runs once it is approved, with the arguments that were approved", async () => {
  const { session, runs } = await openWith("approved", { requiresApproval: true, run: ({ to }) => `sent to ${to}` });
  await assert.rejects(session.dispatch("act", { to: "a" }, "c1"), ApprovalRequired);
  assert.equal(runs.length, 0);
  const waiting = session.dispatch("act", { to: "a" }, "c1", { approval: "wait" });
  await decide("approved", "c1", "approve");
  assert.equal((await waiting).content, "sent to a");
  const rejected = session.dispatch("act", { to: "b" }, "c2", { approval: "wait" });
  await assert.rejects(session.dispatch("act", { to: "b" }, "c2"), ApprovalRequired);
  await decide("approved", "c2", "reject");
  assert.equal((await rejected).isError, true);
  assert.deepEqual(runs, [{ to: "a" }]);
  await session.finish("completed");
});

test("a write whose answer is lost is done once", async () => {
  let lose = 0;
  const client = new Harness(url, process.env.AGENT, {
    pauses: [10, 20],
    async fetch(...request) {
      const response = await fetch(...request);
      if (request[1].method !== "GET" && lose-- > 0) {
        await response.text();
        throw new TypeError("fetch failed", { cause: Object.assign(new Error("reset"), { code: "ECONNRESET" }) });
      }
      return response;
    },
  });
  lose = 1;
  const { session, runs } = await openWith("lost answers", { run: () => "done" }, client);
  lose = 1;
  assert.equal(await session.append([{ role: "user", content: "one" }]), 1);
  lose = 1; // of the intent, and then of the outcome
  assert.equal((await session.dispatch("act", {}, "c1")).content, "done");
  assert.equal((await session.messages()).length, 1);
  session.tools.act.run = () => ((lose = 1_000), runs.push({}), "done");
  await assert.rejects(session.dispatch("act", { n: 2 }, "c2"), (error) => error instanceof ResultNotRecorded && error.content === "done");
  lose = 0;
  assert.equal(runs.length, 2);
  assert.equal((await session.dispatch("act", { n: 2 }, "c2")).replayed, true); // the outcome had come there
});

test("a request waits as long as a server with a busy database asks for, and says whether it may have happened", async () => {
  const keys = [];
  const problem = { type: "StorageBusy", title: "", status: 503, detail: "Busy.", hint: "", facts: {} };
  let busy = 1;
  const client = new Harness(url, process.env.AGENT, {
    pauses: [1],
    async fetch(address, request) {
      if (request.method === "GET") return fetch(address, request);
      keys.push(request.headers["Idempotency-Key"]);
      if (busy-- <= 0) return fetch(address, request);
      const headers = { "Content-Type": "application/problem+json", "Retry-After": "1" };
      return new Response(JSON.stringify({ ...problem, may_have_happened: busy > 0 }), { status: 503, headers });
    },
  });
  const started = performance.now();
  const session = await client.open("busy");
  assert.ok(performance.now() - started >= 990);
  assert.equal(new Set(keys).size, 1);
  assert.equal(keys.length, 2);
  busy = 2;
  await assert.rejects(session.append([{ role: "user" }]), { name: "StorageBusy", status: 503, mayHaveHappened: true });
  await session.release();
});

test("a heartbeat has no key", async () => {
  const headers = [];
  const client = new Harness(url, process.env.AGENT, {
    fetch: async (address, request) => {
      const response = await fetch(address, request);
      if (String(address).endsWith("/heartbeat")) headers.push([response.status, request.body, Object.keys(request.headers)]);
      if (!String(address).endsWith("/sessions")) return response;
      const opening = await response.json();
      opening.run.lease_seconds = 0.3; // so that heartbeats follow each other quickly
      return new Response(JSON.stringify(opening), { status: response.status, headers: { "Content-Type": "application/json" } });
    },
  });
  const session = await client.open("heartbeats");
  while (headers.length < 2) await new Promise((resolve) => setTimeout(resolve, 20));
  await session.release();
  for (const [status, body, names] of headers) {
    assert.deepEqual([status, JSON.parse(body)], [200, { fence: 1 }]);
    assert.ok(!names.includes("Idempotency-Key"));
  }
});

test("a run that was taken over stops", async () => {
  const { session, runs } = await openWith("taken over", { run: () => "done" });
  const other = await new Harness(url, process.env.AGENT).open("taken over", { takeover: true });
  for (let time = 0; time < 2; time += 1) await assert.rejects(session.dispatch("act", {}, "c1"), OwnershipLost);
  await assert.rejects(session.append([]), OwnershipLost);
  assert.equal(runs.length, 0);
  await other.release();
});
