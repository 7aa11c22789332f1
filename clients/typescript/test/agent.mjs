// The agent of the story: it refunds an order, and dies inside the payment if it is told to.
import { appendFileSync } from "node:fs";
import { Harness } from "../dist/index.js";

const [sessionId, effects, fate] = process.argv.slice(2);
const harness = new Harness(process.env.HARNESS_URL, process.env.AGENT);
const tools = {
  refund: {
    sentence: "Refund {amount} for order {order}",
    run({ order, amount }) {
      appendFileSync(effects, `refund ${order}\n`);
      if (fate === "die") process.kill(process.pid, "SIGKILL");
      return `refunded ${amount}`;
    },
  },
};
const session = await harness.open(sessionId, { agent: "refund-desk", userMessage: "Where is my refund?", tools, wait: fate === "wait" });
if (session.version === 0) await session.append([{ role: "user", content: "Where is my refund?" }]);
const call = { id: "call_1", type: "function", function: { name: "refund", arguments: '{"order":17,"amount":"40"}' } };
if (session.version === 1) await session.append([{ role: "assistant", content: "", tool_calls: [call] }]);
const result = await session.dispatch("refund", { order: 17, amount: "40" }, "call_1");
await session.append([{ role: "tool", tool_call_id: "call_1", content: result.content }]);
await session.finish("completed", { content: result.content });
process.stdout.write(JSON.stringify(result));
