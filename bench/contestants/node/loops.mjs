// The requests, performed by promises: a "thread" is an async loop, all of them in one event loop.

import { setTimeout as sleep } from "node:timers/promises";

/** How long one acquire may wait. */
const PATIENCE_MS = 10_000;

/** CLOCK_MONOTONIC, as a number: exact below 2^53 ns, 104 days of uptime, and off by 2 ns in a year. */
export const now = () => Number(process.hrtime.bigint());

export class Unsupported extends Error {}

/** `Kind: message` in one line. */
export function told(error) {
  if (!(error instanceof Error)) return `Error: ${error}`;
  // An AggregateError (a host with several addresses) says nothing itself.
  const message = error.message || error.errors?.[0]?.message || error.code || "";
  return `${error.name}: ${message}`.slice(0, 300);
}

export function usage() {
  const { user, system } = process.cpuUsage();
  return { cpu_ns: (user + system) * 1000 };
}

async function acquire(lock) {
  if (await lock.acquire(PATIENCE_MS)) return;
  const error = new Error(`not acquired within ${PATIENCE_MS / 1000} s`);
  error.name = "TimeoutError";
  throw error;
}

async function pairs(lock, count) {
  const ns = [];
  const errors = [];
  for (let i = 0; i < count; i++) {
    const began = now();
    try {
      await acquire(lock);
      await lock.release();
    } catch (error) {
      errors.push(told(error));
      continue;
    }
    ns.push(now() - began);
  }
  return { ns, errors };
}

/** At least so long: a timer counts in whole milliseconds of a clock that is read once a turn, and is early at times. */
async function pause(untilNs) {
  for (let left; (left = untilNs - now()) > 0; ) await sleep(Math.max(1, Math.floor(left / 1e6)));
}

function together(threads, loop) {
  return Promise.all(Array.from({ length: threads }, (_, i) => loop(i)));
}

export class Loops {
  static VERBS = new Set(["pairs", "throughput", "contend", "acquire", "release", "wait"]);

  constructor(library) {
    this.library = library;
    this.locks = new Map();
  }

  /** Requests that follow each other mean the same lock. */
  #lock(name) {
    if (!this.locks.has(name)) this.locks.set(name, this.library.lock(name));
    return this.locks.get(name);
  }

  pairs({ lock, count }) {
    return pairs(this.#lock(lock), count);
  }

  async throughput({ prefix, threads, seconds }) {
    let done = 0;
    const errors = [];
    const began = now();
    const until = began + seconds * 1e9;
    await together(threads, async (i) => {
      const lock = this.library.lock(`${prefix}${i}`);
      try {
        while (now() < until) {
          await acquire(lock);
          await lock.release();
          done++;
        }
      } catch (error) {
        errors.push(told(error));
      }
    });
    return { pairs: done, ns: now() - began, errors };
  }

  async contend({ lock, threads, hold_us, start_ns, stop_ns }) {
    const sections = [];
    const errors = [];
    await together(threads, async (i) => {
      const mine = this.library.lock(lock);
      await pause(start_ns);
      for (let asked; (asked = now()) < stop_ns; ) {
        try {
          await acquire(mine);
          const entered = now();
          await pause(entered + hold_us * 1000);
          const left = now();
          sections.push([i, asked, entered, left]);
          await mine.release();
        } catch (error) {
          errors.push(told(error));
        }
      }
    });
    return { sections, errors };
  }

  async acquire({ lock, wait_ms }) {
    const asked = now();
    const acquired = await this.#lock(lock).acquire(wait_ms);
    return { acquired, asked, entered: now() };
  }

  async release({ lock }) {
    const began = now();
    await this.#lock(lock).release();
    return { began, ended: now() };
  }

  wait({ lock, threads }) {
    together(threads, () => this.library.lock(lock).park()).catch((error) => console.error(error));
    return { waiting: threads };
  }
}
