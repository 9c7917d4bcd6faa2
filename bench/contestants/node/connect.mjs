// The clients of redlock: one ioredis client for each master, at ioredis' defaults.

import { readFileSync } from "node:fs";
import { Redis } from "ioredis";
import { told } from "./loops.mjs";

/** A connection that comes to nothing in this time is a master that is away. */
const CONNECT_MS = 5_000;

export async function connect(masters) {
  const clients = masters.map((url) => new Redis(url));
  const faults = (await Promise.all(clients.map(settled))).filter((fault) => fault !== null);
  if (faults.length * 2 >= masters.length) {
    for (const client of clients) client.disconnect();
    throw new Error(`${faults.length} of ${masters.length} masters cannot be reached: ${told(faults[0])}`);
  }
  return clients;
}

/** Null as soon as it is connected, or what is in the way. ioredis goes on trying by itself. */
function settled(client) {
  // Without a listener ioredis prints each failed attempt.
  client.on("error", () => {});
  return new Promise((resolve) => {
    const late = setTimeout(() => resolve(new Error(`no connection in ${CONNECT_MS} ms`)), CONNECT_MS);
    for (const [event, result] of [["ready", () => null], ["error", (error) => error]]) {
      client.once(event, (error) => {
        clearTimeout(late);
        resolve(result(error));
      });
    }
  });
}

/** Of an installed package: not all of them let their package.json be imported. */
export function version(name) {
  const told = readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url));
  return JSON.parse(told).version.replace(/^v/, "");
}
