// The page: asks for a snapshot once a second while it is seen, and shows it. It never asks for a change.
import { attribute, keep, leaseLeft, make, Table, text } from "./table.js";
import { clock, facts, fleet, many, master, number, owner, person, seconds, shown, standing, view, votes } from "./words.js";

const EVERY_MS = 1000, GIVE_UP_MS = 8000, OLD_S = 4.5, TICK_MS = 250;
const $ = (id) => document.getElementById(id);

let snapshot = null; // the last one
let gotAt = 0; // when it came, by performance.now()
let age = 0; // how old it was then, in seconds
let failures = 0; // requests in a row that brought nothing
let trouble = ""; // the server's word for what is wrong
let wokeAt = 0; // when the page was last brought to the front
let stale = false;
let selected = null; // the name of the lock whose details are shown
let single = null; // the answer about it, when the snapshot does not hold all of it
let panelLock = null; // the lock whose details are drawn
let timer = 0, asking = false;
let opener = null; // the element that had the focus before the details
let warned = "", announced = "";
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
      snapshot = value;
      age = Number(answer.headers.get("Rlock-Age")) || 0;
      gotAt = performance.now();
    } else trouble = value.error;
    await askForSelected();
  } catch {
    failures += 1;
  } finally {
    asking = false;
  }
  draw();
  // Nobody looks at a page in the background: the masters are left in peace.
  if (!document.hidden) timer = setTimeout(poll, Math.max(100, EVERY_MS - (performance.now() - began)));
}

async function askForSelected() {
  const name = selected, seen = snapshot?.locks.find((lock) => lock.name === name);
  // A look tells of the first waiters only; the whole queue is asked for.
  if (name === null || (seen && seen.waiters.length >= seen.queue_length)) {
    single = null;
    return;
  }
  const { value } = await ask(`api/lock?name=${encoded(name)}`);
  if (name === selected) single = { ...value, name, gotAt: performance.now() };
}

function encoded(name) {
  try {
    return encodeURIComponent(name);
  } catch {
    return ""; // half a surrogate pair: no lock has such a name
  }
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) return;
  wokeAt = performance.now();
  poll();
});

// -- drawing ------------------------------------------------------------------------------------------

const ageNow = () => age + (performance.now() - gotAt) / 1000;
const say = (message) => text($("said"), message); // for screen readers

function draw() {
  const rested = performance.now() - wokeAt > OLD_S * 1000;
  stale = failures > 1 || (snapshot !== null && rested && ageNow() > OLD_S);
  document.body.classList.toggle("stale", stale);
  let message = "";
  if (failures > 1) message = "The dashboard's server does not answer. Trying again every second.";
  else if (trouble) message = `The masters could not be looked at: ${trouble}`;
  else if (stale) message = "The masters have not been looked at for a while.";
  if (message && snapshot) message += ` What you see is from ${clock(snapshot.at)}.`;
  $("banner").hidden = !message;
  text($("banner"), message);
  if (message !== warned) say(message || "The page is live again.");
  warned = message;
  if (snapshot) {
    drawFleet();
    drawMasters();
    drawFigures();
    drawLocks();
    drawDetails();
  } else if (message) text($("fleet"), failures > 1 ? "No connection" : "The masters have not been seen yet");
  tick();
}

function drawFleet() {
  const told = fleet(snapshot);
  if (announced && announced !== told.headline) say(`${told.headline}. ${told.note}`);
  announced = told.headline;
  text($("fleet"), told.headline);
  text($("note"), told.note);
  attribute($("fleet"), "data-level", stale ? "none" : told.level);
  const title = `${stale ? "(stale) " : told.level === "good" ? "" : "! "}rlock: ${told.headline}`;
  if (document.title !== title) document.title = title;
}

function drawMasters() {
  keep($("masters"), snapshot.masters, (m) => m.master, createCard, (card, m) => {
    const told = master(m), p = card.parts;
    attribute(card, "data-level", told.level);
    text(p.state, told.state);
    text(p.kind, [m.flavour, m.version, m.role === "master" ? null : m.role, m.group && `· led by ${m.group.leader}`].filter(Boolean).join(" "));
    keep(p.remarks, told.remarks, (_, i) => i, () => make("p"), (line, remark) => text(line, shown(remark)));
    keep(p.facts, m.fault === null ? facts(m, snapshot.at) : [], (f) => f[0],
      ([what]) => make("div", "", make("dt", "", what), make("dd")), (item, f) => text(item.lastElementChild, f[1]));
  });
}

function createCard(m) {
  const card = make("li", "card");
  const p = { state: make("span", "pill"), kind: make("p", "kind"), remarks: make("div", "remarks"), facts: make("dl", "facts") };
  card.parts = p;
  const name = make("h3", "", make("bdi", "", shown(m.master)));
  card.append(make("div", "card-head", name, p.state), p.kind, p.remarks, p.facts);
  return card;
}

function drawFigures() {
  const all = snapshot.locks, lengths = all.map((lock) => lock.queue_length);
  const plus = snapshot.more ? "+" : "";
  text($("held"), number(all.filter((lock) => lock.holder !== null).length) + plus);
  text($("waited"), number(lengths.filter(Boolean).length) + plus);
  text($("waiters"), number(lengths.reduce((sum, each) => sum + each, 0)) + plus);
  text($("longest"), number(Math.max(0, ...lengths)));
}

function drawLocks() {
  const wanted = $("filter").value.trim().toLowerCase(), all = snapshot.locks;
  const matches = (lock) => `${lock.name}\n${lock.holder ?? ""}`.toLowerCase().includes(wanted);
  const found = wanted ? all.filter(matches) : all;
  table.draw(found, selected);
  text($("count"), wanted ? `${found.length} of ${many(all.length, "lock")}` : many(all.length, "lock"));
  $("table").hidden = !found.length;
  $("empty").hidden = found.length > 0;
  const answered = snapshot.masters.filter((m) => m.fault === null).length >= snapshot.quorum;
  const none = answered ? "No lock is held or waited for." : "Too few masters answer to say who holds what.";
  text($("empty"), all.length ? "No lock here has that in its name or holder. Press Enter to ask the masters for exactly that name." : none);
  $("more").hidden = !snapshot.more;
  text($("more"), `There are more locks than these ${all.length}. Start the dashboard with a PATTERN or a higher --limit, or type a name and press Enter.`);
}

// -- details of one lock ------------------------------------------------------------------------------

function choose(name) {
  if (name === selected) name = null;
  if (name !== null && selected === null) opener = document.activeElement;
  selected = name;
  single = null;
  draw();
  if (name === null) {
    if (opener?.isConnected) opener.focus({ preventScroll: true });
    opener = null;
    return;
  }
  $("detail-title").focus({ preventScroll: true });
  $("detail").scrollIntoView({ block: "nearest" });
  poll();
}

function drawDetails() {
  $("detail").hidden = selected === null;
  document.body.classList.toggle("open", selected !== null);
  if (selected === null) return;
  const seen = snapshot.locks.find((each) => each.name === selected);
  const lock = single?.error === undefined ? single ?? seen : seen ?? single;
  panelLock = lock && lock.error === undefined ? lock : null;
  text($("detail-title").firstElementChild, shown(selected));
  text($("detail-owner"), panelLock?.holder ? shown(panelLock.holder) : "");
  keep($("views"), lock?.masters ?? [], (v) => v.master,
    () => make("li", "", make("span", "pips", make("i")), make("bdi", "at"), make("span", "what"), make("span", "left")),
    (item, v) => {
      const told = panelLock ? view(v, lock) : { kind: v.fault ? "fault" : "free", text: v.fault ? `no answer: ${v.fault}` : "answers" };
      const [mark, at, what] = item.children;
      attribute(mark.firstElementChild, "data-kind", told.kind);
      text(at, shown(v.master));
      text(what, shown(told.text) + (v.hold_count > 1 ? `, count ${v.hold_count}` : ""));
      item.view = v;
    });
  const waiters = panelLock?.waiters ?? [], length = panelLock?.queue_length ?? 0;
  text($("queue-title"), length ? `Waiting: ${number(length)}, the next one first` : "Waiting");
  keep($("queue"), waiters, (w) => w.owner, (w) => {
    const item = make("li", "", make("bdi", "", person(w.owner)), make("span", "left"));
    item.title = shown(owner(w.owner).uuid);
    return item;
  }, (item, w) => (item.waiter = w));
  const hidden = length - waiters.length;
  text($("queue-note"), !panelLock ? "" : length === 0 ? "Nobody waits." : hidden > 0 ? `and ${number(hidden)} more` : "");
}

// -- between two looks --------------------------------------------------------------------------------

// Leases are renewed without our seeing it: a stale page does not count down, or all would seem to end.
function tick() {
  if (document.hidden) return;
  const state = stale ? ["bad", snapshot ? `${seconds(ageNow())} old` : "offline"] : snapshot ? ["good", "live"] : ["none", "connecting"];
  attribute($("live"), "data-level", state[0]);
  text($("live-text"), state[1]);
  if (stale || !snapshot) return;
  const since = Math.min(ageNow(), OLD_S), now = snapshot.at + ageNow();
  table.tick(now, since);
  if (selected === null) return;
  const lock = panelLock, after = lock && lock === single ? (performance.now() - single.gotAt) / 1000 : since;
  text($("detail-state"), lock ? sentence(lock, now, after) : single?.error ?? "Asking the masters …");
  for (const item of $("views").children) text(item.lastElementChild, lock && item.view.holder ? leaseLeft(item.view, after) : "");
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
  const left = lock.remaining === null ? "It has no expiry." : `The lease ends in ${leaseLeft(lock, after)} unless renewed.`;
  return `Held by ${person(lock.holder)}${held}${count}, on ${votes(lock)} of ${many(lock.masters.length, "master")}. ${left}`;
}

$("filter").addEventListener("input", () => snapshot && (drawLocks(), tick()));
$("find").addEventListener("submit", (event) => {
  event.preventDefault();
  const name = $("filter").value.trim();
  if (name && name !== selected) choose(name);
});
$("close").addEventListener("click", () => choose(null));

setInterval(tick, TICK_MS);
poll();
