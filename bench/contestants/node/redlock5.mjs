// redlock 5.0.0-beta.2, the release that the project's page describes. It returns at the majority, and waits by polling.

import Redlock, { ExecutionError, ResourceLockedError } from "redlock";
import { connect, version } from "./connect.mjs";
import { now } from "./loops.mjs";

export async function open(masters, ttlMs, pollMs) {
  const clients = await connect(masters);
  // A jitter of half the delay is the proportion of its defaults (200 ms and 100 ms). One retry in a call: with
  // several who want a lock it gets it twice to four times as often as with the default of ten (see acquire).
  const settings = pollMs === null ? {} : { retryDelay: pollMs, retryJitter: pollMs / 2, retryCount: 1 };
  const redlock = new Redlock(clients, settings);
  return {
    version: `${version("redlock")} (ioredis ${version("ioredis")})`,
    lock: (name) => new Lock(redlock, name, ttlMs),
  };
}

class Lock {
  constructor(redlock, name, ttlMs) {
    this.redlock = redlock;
    this.resources = [name];
    this.ttlMs = ttlMs;
    this.held = null;
  }

  async acquire(waitMs) {
    if (waitMs < 0) {
      this.held = await this.redlock.acquire(this.resources, this.ttlMs, { retryCount: -1 });
      return true;
    }
    const until = now() + waitMs * 1e6;
    const { retryCount, retryDelay } = this.redlock.settings;
    for (;;) {
      // Its own number of attempts, then it is asked again. One call with a number of attempts that lasts for the
      // whole wait would do worse: an outvoted attempt keeps the votes that it got until the last one has failed.
      const attempts = Math.min(retryCount, Math.floor(Math.max(0, until - now()) / 1e6 / retryDelay));
      try {
        this.held = await this.redlock.acquire(this.resources, this.ttlMs, { retryCount: attempts });
        return true;
      } catch (error) {
        if (!(error instanceof ExecutionError)) throw error;
        if (now() + retryDelay * 1e6 < until) continue;
        const fault = await unreachable(error);
        if (fault !== null) throw fault;
        return false;
      }
    }
  }

  async release() {
    const held = this.held;
    this.held = null;
    await held.release();
  }
}

/** Why it failed, if it was not that somebody else has it; null if it was. */
async function unreachable(error) {
  const stats = await Promise.race([
    error.attempts.at(-1),
    new Promise((resolve) => setTimeout(resolve, 1000, null)), // a master that hangs never votes
  ]);
  if (stats === null) return null;
  const faults = [...stats.votesAgainst.values()].filter((vote) => !(vote instanceof ResourceLockedError));
  return faults.length >= stats.quorumSize ? faults[0] : null;
}
