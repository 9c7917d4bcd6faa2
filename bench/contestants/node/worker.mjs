// The worker of a Node contestant: reads requests, runs them with one adapter, writes replies.
//
//     node worker.mjs redlock5
//
// An adapter has `open(masters, ttlMs, pollMs)`, which resolves to a library: `version` and `lock(name)`, with
// `acquire(waitMs)`, which resolves to whether it was acquired (-1: it waits without an end), and `release()`. The
// protocol: bench/contestants/README.md.

import { Console } from "node:console";
import { createInterface } from "node:readline";
import { Loops, Unsupported, told } from "./loops.mjs";

// What libraries print is not ours to answer with.
globalThis.console = new Console(process.stderr, process.stderr);

const adapter = await import(`./${process.argv[2] ?? "redlock5"}.mjs`);
let performer;

async function perform({ do: verb, ...request }) {
  if (verb === "open") {
    const library = await adapter.open(request.masters, request.ttl_ms, request.poll_ms ?? null);
    performer = new Loops(library);
    return { version: library.version, runtime: `Node ${process.versions.node}` };
  }
  if (!Loops.VERBS.has(verb)) throw new Unsupported(`no such request: ${verb}`);
  if (performer === undefined) throw new Error("not opened");
  return performer[verb](request);
}

// Who asks is gone: what is being done is for nobody, and may wait for a lock for long.
process.stdin.on("end", () => process.exit(0));

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  let reply;
  try {
    reply = { ok: true, ...(await perform(request)) };
  } catch (error) {
    if (error instanceof Unsupported) {
      reply = { ok: false, unsupported: error.message };
    } else {
      console.error(error);
      reply = { ok: false, error: told(error) };
    }
  }
  await new Promise((written) => process.stdout.write(`${JSON.stringify(reply)}\n`, written));
}
