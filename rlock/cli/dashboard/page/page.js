// The page: asks for a snapshot once a second while it is seen, and shows it. It never asks for a change.
import { attribute, countdown, keep, make, Table, text } from "./table.js";
import { clock, facts, fleet, many, master, number, owner, person, seconds, shown, standing, view, votes } from "./words.js";

const EVERY_MS = 1000, GIVE_UP_MS = 8000, OLD_S = 4.5, TICK_MS = 250, POINTS = 60;
const $ = (id) => document.getElementById(id);

let snapshot = null; // the last one
let gotAt = 0; // when it came, by performance.now()
let age = 0; // how old it was then, in seconds
let failures = 0; // requests in a row that brought nothing
let trouble = ""; // what the server says is wrong
let wokeAt = 0; // when the page was last brought to the front
let stale = false;
let selected = null; // the name of the lock whose details are shown
let single = null; // the answer about it, when the snapshot does not hold it
let timer = 0, asking = false;
let opener = null; // what had the focus before the details
const rates = [];
const table = new Table((name) => choose(name));

// -- asking -------------------------------------------------------------------------------------------

async function ask(url) {
  const answer = await fetch(url, { cache: "no-store", signal: AbortSignal.timeout(GIVE_UP_MS) });
  return { answer, value: await answer.json() };
}

async function poll() {
  if (asking) return;
  asking = true;
  clearTimeout(timer);
  const began = performance.now();
  try {
    const { answer, value } = await ask("api/snapshot");
    failures = 0;
    if (answer.ok) {
      trouble = answer.headers.has("Rlock-Error") ? JSON.parse(answer.headers.get("Rlock-Error")) : "";
      take(value, Number(answer.headers.get("Rlock-Age")) || 0);
    } else trouble = value.error;
    await details();
  } catch {
    failures += 1;
  } finally {
    asking = false;
  }
  draw();
  // Nobody looks at a page in the background: the masters are left in peace.
  if (!document.hidden) timer = setTimeout(poll, Math.max(100, EVERY_MS - (performance.now() - began)));
}

function take(value, old) {
  if (!snapshot || value.at !== snapshot.at) {
    rates.push(value.hand_offs_per_second);
    if (rates.length > POINTS) rates.shift();
  }
  snapshot = value;
  age = old;
  gotAt = performance.now();
}

async function details() {
  const name = selected, seen = snapshot?.locks.find((lock) => lock.name === name);
  // A look tells of the first waiters only; the whole queue is asked for.
  if (name === null || (seen && seen.waiters.length >= seen.queue_length)) {
    single = null;
    return;
  }
  if (!name.isWellFormed?.() && /[\ud800-\udfff]/u.test(name)) {
    single = { name, error: "this name is no text that can be asked for" };
    return;
  }
  const { value } = await ask(`api/lock?name=${encodeURIComponent(name)}`);
  if (name === selected) single = { ...value, name, gotAt: performance.now() };
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) return;
  wokeAt = performance.now();
  poll();
});

// -- drawing ------------------------------------------------------------------------------------------

function draw() {
  const wasStale = stale, seen = ageNow();
  const rested = performance.now() - wokeAt > OLD_S * 1000;
  stale = failures > 1 || (snapshot !== null && rested && seen > OLD_S);
  document.body.classList.toggle("stale", stale);
  let message = "";
  if (failures > 1) message = "The dashboard's server does not answer. Trying again every second.";
  else if (trouble) message = `The masters could not be looked at: ${trouble}`;
  else if (stale) message = "The masters have not been looked at for a while.";
  if (message && snapshot) message += ` What you see is from ${clock(snapshot.at)}.`;
  attribute($("banner"), "hidden", message ? null : "");
  text($("banner"), message);
  if (message && !draw.told) say(message);
  else if (!message && draw.told) say("The page is live again.");
  draw.told = message;
  if (!snapshot) {
    if (message) text($("fleet"), failures > 1 ? "No connection" : "The masters have not been seen yet");
    live();
    return;
  }
  header();
  masters();
  figures();
  locks();
  panel();
  tick();
  if (wasStale !== stale) live();
}

const ageNow = () => age + (performance.now() - gotAt) / 1000;

function say(message) {
  text($("said"), message);
}

function live() {
  const old = snapshot ? ageNow() : 0;
  const state = stale ? ["bad", snapshot ? `${seconds(old)} old` : "offline"] : snapshot ? ["good", "live"] : ["none", "connecting"];
  attribute($("live"), "data-level", state[0]);
  text($("live-text"), state[1]);
}

function header() {
  const told = fleet(snapshot);
  if ($("fleet").textContent !== told.headline && draw.before) say(`${told.headline}. ${told.note}`);
  draw.before = true;
  text($("fleet"), told.headline);
  text($("note"), told.note);
  attribute($("fleet"), "data-level", stale ? "none" : told.level);
  const title = `${stale ? "(stale) " : told.level === "good" ? "" : "! "}rlock: ${told.headline}`;
  if (document.title !== title) document.title = title;
}

function masters() {
  keep($("masters"), snapshot.masters, (m) => m.master, bornMaster, (card, m) => {
    const told = master(m), p = card.parts;
    attribute(card, "data-level", told.level);
    text(p.state, told.state);
    text(p.kind, [m.flavour, m.version, m.role === "master" ? null : m.role].filter(Boolean).join(" "));
    keep(p.remarks, told.remarks, (_, i) => i, () => make("p"), (line, remark) => text(line, shown(remark)));
    keep(p.facts, m.fault === null ? facts(m) : [], (f) => f[0], ([what]) => {
      const item = make("div", "", make("dt", "", what), make("dd"));
      return item;
    }, (item, f) => text(item.lastElementChild, f[1]));
  });
}

function bornMaster(m) {
  const card = make("li", "card");
  card.parts = { state: make("span", "pill"), kind: make("p", "kind"), remarks: make("div", "remarks"), facts: make("dl", "facts") };
  const p = card.parts;
  const name = make("h3", "", make("bdi", "", shown(m.master)));
  card.append(make("div", "card-head", name, p.state), p.kind, p.remarks, p.facts);
  return card;
}

function figures() {
  const all = snapshot.locks, lengths = all.map((lock) => lock.queue_length);
  const plus = snapshot.more ? "+" : "";
  text($("held"), number(all.filter((lock) => lock.holder !== null).length) + plus);
  text($("waited"), number(lengths.filter(Boolean).length) + plus);
  text($("waiters"), number(lengths.reduce((sum, each) => sum + each, 0)) + plus);
  text($("longest"), number(Math.max(0, ...lengths)));
  const rate = snapshot.hand_offs_per_second;
  text($("rate"), rate === null ? "–" : number(rate));
  const known = rates.filter((each) => each !== null), top = Math.max(1, ...known);
  const first = POINTS - known.length;
  const points = known.map((each, i) => `${(((first + i) / (POINTS - 1)) * 120).toFixed(1)},${(26 - (each / top) * 24).toFixed(1)}`);
  attribute($("line"), "points", points.length > 1 ? points.join(" ") : "");
}

function locks() {
  const wanted = $("filter").value.trim().toLowerCase(), all = snapshot.locks;
  const matches = (lock) => lock.name.toLowerCase().includes(wanted) || (lock.holder ?? "").toLowerCase().includes(wanted);
  const found = wanted ? all.filter(matches) : all;
  table.draw(found, selected);
  text($("count"), wanted ? `${found.length} of ${many(all.length, "lock")}` : many(all.length, "lock"));
  attribute($("table"), "hidden", found.length ? null : "");
  attribute($("empty"), "hidden", found.length ? "" : null);
  const answered = snapshot.masters.filter((m) => m.fault === null).length >= snapshot.quorum;
  const none = answered ? "No lock is held or waited for." : "Too few masters answer to say who holds what.";
  text($("empty"), all.length ? "No lock here has that in its name or holder. Press Enter to ask the masters for exactly that name." : none);
  attribute($("more"), "hidden", snapshot.more ? null : "");
  text($("more"), `There are more locks than these ${all.length}. Start the dashboard with a PATTERN or a higher --limit, or type a name and press Enter.`);
}

// -- details of one lock ------------------------------------------------------------------------------

function choose(name, focus = true) {
  if (name === selected) name = null;
  if (name !== null && selected === null) opener = document.activeElement;
  selected = name;
  single = null;
  const hash = name === null ? "" : `#lock=${encoded(name)}`;
  if (location.hash !== hash) history.replaceState(null, "", hash || location.pathname + location.search);
  draw();
  if (name === null) {
    if (opener?.isConnected) opener.focus({ preventScroll: true });
    opener = null;
    return;
  }
  if (focus) {
    $("detail-title").focus({ preventScroll: true });
    $("detail").scrollIntoView({ block: "nearest" });
  }
  poll();
}

function encoded(name) {
  try {
    return encodeURIComponent(name);
  } catch {
    return ""; // half a surrogate pair
  }
}

function panel() {
  attribute($("detail"), "hidden", selected === null ? "" : null);
  document.body.classList.toggle("open", selected !== null);
  if (selected === null) return;
  const seen = snapshot.locks.find((each) => each.name === selected);
  const lock = single?.error === undefined ? single ?? seen : seen ?? single;
  text($("detail-title").firstElementChild, shown(selected));
  const known = lock && lock.error === undefined;
  panel.lock = known ? lock : null;
  text($("detail-owner"), known && lock.holder !== null ? shown(lock.holder) : "");
  $("detail-owner").hidden = !(known && lock.holder !== null);
  const views = !lock ? [] : known ? lock.masters : lock.masters ?? [];
  $("views-title").hidden = !views.length;
  keep($("views"), views, (v) => v.master, () => {
    const item = make("li", "", make("span", "pips", make("i")), make("bdi", "at"), make("span", "what"), make("span", "left"));
    return item;
  }, (item, v) => {
    const seen = known ? view(v, lock) : { kind: v.fault ? "fault" : "free", text: v.fault ? `no answer: ${v.fault}` : "answers" };
    const [mark, at, what, left] = item.children;
    attribute(mark.firstElementChild, "data-kind", seen.kind);
    text(at, shown(v.master));
    text(what, shown(seen.text) + (v.hold_count > 1 ? `, count ${v.hold_count}` : ""));
    item.view = known && v.holder !== null ? v : null;
    if (!item.view) text(left, "");
  });
  const waiters = known ? lock.waiters : [];
  $("queue-title").hidden = !known;
  text($("queue-title"), known && lock.queue_length ? `Waiting: ${number(lock.queue_length)}, the next one first` : "Waiting");
  keep($("queue"), waiters, (w) => w.owner, (w) => {
    const item = make("li", "", make("bdi", "", person(w.owner)), make("span", "left"));
    item.title = shown(owner(w.owner).uuid);
    return item;
  }, (item, w) => (item.waiter = w));
  const hidden = known ? lock.queue_length - waiters.length : 0;
  text($("queue-note"), !known ? "" : lock.queue_length === 0 ? "Nobody waits." : hidden > 0 ? `and ${number(hidden)} more` : "");
}

// -- between two looks --------------------------------------------------------------------------------

// Leases are renewed without our seeing it: what is stale does not count down, or all would seem to end.
function tick() {
  if (!snapshot || document.hidden) return;
  live();
  if (stale) return;
  const since = Math.min(ageNow(), OLD_S), now = snapshot.at + ageNow();
  table.tick(now, since);
  if (selected === null) return;
  const lock = panel.lock, alone = lock && lock === single;
  const after = alone ? (performance.now() - single.gotAt) / 1000 : since;
  text($("detail-state"), lock ? sentence(lock, now, after) : single?.error ?? "Asking the masters …");
  $("detail-bar").hidden = true;
  if (lock) countdown($("detail-bar"), null, lock, after);
  for (const item of $("views").children) {
    const v = item.view;
    if (v) text(item.lastElementChild, v.remaining === null ? "no expiry" : `${Math.max(0, v.remaining - after).toFixed(1)} s`);
  }
  for (const item of $("queue").children) {
    text(item.lastElementChild, item.waiter.since === null ? "" : seconds(now - item.waiter.since));
  }
}

function sentence(lock, now, after) {
  const quorum = `quorum ${lock.quorum} of ${lock.masters.length}`;
  if (lock.holder === null) {
    if (standing(lock) === "no quorum") return `Nobody has a quorum (${quorum}): somebody is acquiring it, or its masters are gone.`;
    if (!lock.free) return `Nobody is named (${quorum}), but masters do not answer, or may have forgotten who holds it.`;
    return `Free (${quorum}).`;
  }
  const held = lock.since === null ? "" : ` since ${clock(lock.since)} (${seconds(now - lock.since)})`;
  const count = lock.hold_count > 1 ? `, hold count ${lock.hold_count}` : "";
  const left = lock.remaining === null ? "It has no expiry." : `The lease ends in ${Math.max(0, lock.remaining - after).toFixed(1)} s unless renewed.`;
  return `Held by ${person(lock.holder)}${held}${count}, on ${votes(lock)} of ${many(lock.masters.length, "master")}. ${left}`;
}

// -- the keyboard, and the address --------------------------------------------------------------------

$("filter").addEventListener("input", () => snapshot && (locks(), tick()));
$("find").addEventListener("submit", (event) => {
  event.preventDefault();
  const name = $("filter").value.trim();
  if (name && name !== selected) choose(name);
});
$("close").addEventListener("click", () => choose(null));
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.key === "/" && document.activeElement !== $("filter")) {
    event.preventDefault();
    $("filter").focus();
  } else if (event.key === "Escape") {
    if (document.activeElement === $("filter") && $("filter").value) {
      $("filter").value = "";
      $("filter").dispatchEvent(new Event("input"));
    } else if (selected !== null) choose(null);
  }
});

function fromAddress() {
  if (!location.hash.startsWith("#lock=")) return;
  try {
    const name = decodeURIComponent(location.hash.slice(6));
    if (name && name !== selected) choose(name, false);
  } catch {
    // an address that somebody has cut short
  }
}

addEventListener("hashchange", fromAddress);
fromAddress();
setInterval(tick, TICK_MS);
poll();
