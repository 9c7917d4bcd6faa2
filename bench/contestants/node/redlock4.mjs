// redlock 4.2.0, what `npm install redlock` gives. It waits for all masters, and waits for the lock by polling.

import Redlock from "redlock-4";
import { connect, version } from "./connect.mjs";
import { Unsupported, now } from "./loops.mjs";

export async function open(masters, ttlMs, pollMs) {
  const clients = await connect(masters);
  // A jitter of half the delay is the proportion of its defaults (200 ms and 100 ms).
  const settings = pollMs === null ? {} : { retryDelay: pollMs, retryJitter: pollMs / 2 };
  // Of one attempt: asked for no retries in the call, it takes its default of ten.
  const once = new Redlock(clients, { ...settings, retryCount: 0 });
  return new Library(new Redlock(clients, settings), once, ttlMs);
}

class Library {
  name = "node-redlock 4";
  version = `${version("redlock-4")} (ioredis ${version("ioredis")})`;

  constructor(redlock, once, ttlMs) {
    this.redlock = redlock;
    this.once = once;
    this.ttlMs = ttlMs;
  }

  lock(name) {
    return new Lock(this, name);
  }

  hold() {
    throw new Unsupported("no renewal: its extend() is the application's to call");
  }
}

class Lock {
  constructor(library, name) {
    this.library = library;
    this.name = name;
    this.held = null;
  }

  async acquire(waitMs) {
    const { redlock, once, ttlMs } = this.library;
    const until = now() + waitMs * 1e6;
    const { retryCount, retryDelay } = redlock;
    const faults = [];
    // The only place where it tells why a master did not vote.
    const note = (error) => faults.push(error);
    redlock.on("clientError", note);
    once.on("clientError", note);
    try {
      for (;;) {
        // Its own number of attempts, then it is asked again.
        const attempts = Math.min(retryCount, Math.floor(Math.max(0, until - now()) / 1e6 / retryDelay));
        faults.length = 0;
        try {
          this.held = await (attempts === 0
            ? once.acquire(this.name, ttlMs)
            : redlock.acquireWithOptions(this.name, ttlMs, { retryCount: attempts }));
          return true;
        } catch (error) {
          if (!(error instanceof Redlock.LockError)) throw error;
        }
        if (now() + retryDelay * 1e6 >= until) break;
      }
    } finally {
      redlock.off("clientError", note);
      once.off("clientError", note);
    }
    if (faults.length > 0) throw faults[0];
    return false;
  }

  async release() {
    const held = this.held;
    this.held = null;
    await held.unlock();
  }

  async park() {
    await this.library.redlock.acquireWithOptions(this.name, this.library.ttlMs, { retryCount: -1 });
  }
}
