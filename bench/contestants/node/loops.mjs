// The requests, performed by promises: a "thread" is an async loop, all of them in one event loop.

import { setTimeout as sleep } from "node:timers/promises";

/** How long one acquire may wait, unless the request says. */
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

/** At least so long: a timer counts in whole milliseconds of a clock that is read once a turn, and is early at times. */
async function pause(untilNs) {
  for (let left; (left = untilNs - now()) > 0; ) await sleep(Math.max(1, Math.floor(left / 1e6)));
}

export class Loops {
  static VERBS = new Set(["loop", "acquire", "release"]);

  constructor(library) {
    this.library = library;
    this.locks = new Map();
  }

  /** Requests that follow each other mean the same lock. */
  #lock(name, thread = 0) {
    const key = `${thread} ${name}`;
    if (!this.locks.has(key)) this.locks.set(key, this.library.lock(name));
    return this.locks.get(key);
  }

  async loop({ lock, threads = 1, own, nested, count = 0, hold_us = 0, start_ns = 0, stop_ns, wait_ms = PATIENCE_MS }) {
    if (nested) throw new Unsupported("not reentrant");
    const sections = [];
    const errors = [];
    const loop = async (_, i) => {
      const mine = this.#lock(own ? `${lock}${i}` : lock, i);
      await pause(start_ns);
      for (let turn = 0; count ? turn < count : now() < stop_ns; turn++) {
        const asked = now();
        try {
          if (!(await mine.acquire(wait_ms))) {
            throw Object.assign(new Error(`not acquired within ${wait_ms / 1000} s`), { name: "TimeoutError" });
          }
          const entered = now();
          if (hold_us) await pause(entered + hold_us * 1000);
          const section = [i, asked, entered, now(), 0];
          sections.push(section); // before a release that may fail
          await mine.release();
          section[4] = now();
        } catch (error) {
          errors.push(told(error));
        }
      }
    };
    await Promise.all(Array.from({ length: threads }, loop));
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
    return { began };
  }
}
