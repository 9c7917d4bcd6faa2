// The table of locks: rows are kept from look to look, so that hundreds of them cost little and nothing flickers.
import { owner, seconds, shown, standing, view, votes } from "./words.js";

export function make(tag, className, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children);
  return element;
}

// Only what changed is written: a selection stays, and nothing is laid out twice.
export function text(element, value) {
  if (element.textContent !== value) element.textContent = value;
}

export function attribute(element, name, value) {
  if (value === null) element.removeAttribute(name);
  else if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

// Make the children of `parent` those of `items`, in order; each is made once for its key.
export function keep(parent, items, key, born, update) {
  const known = parent.kept ?? (parent.kept = new Map()), seen = new Set();
  let place = parent.firstElementChild;
  items.forEach((item, i) => {
    const id = key(item, i);
    let element = known.get(id);
    if (!element) known.set(id, (element = born(item)));
    seen.add(id);
    update(element, item, i);
    if (element === place) place = place.nextElementSibling;
    else parent.insertBefore(element, place);
  });
  for (const [id, element] of known) {
    if (!seen.has(id)) {
      element.remove();
      known.delete(id);
    }
  }
}

export function pips(element, lock) {
  keep(element, lock.masters, (v) => v.master, () => make("i"), (pip, v) => {
    const seen = view(v, lock);
    attribute(pip, "data-kind", seen.kind);
    attribute(pip, "title", `${v.master}: ${seen.text}`);
  });
}

// A lease tells what is left of it and not how long it is: the most that was ever seen is taken for all of it.
const longest = new Map();
export function share(name, left) {
  const all = Math.max(longest.get(name) ?? 1, left);
  longest.set(name, all);
  return left / all;
}

export function drain(bar, part) {
  attribute(bar, "data-level", part > 0.34 ? "good" : part > 0.15 ? "warn" : "bad");
  bar.firstElementChild.style.transform = `scaleX(${Math.max(0, Math.min(1, part)).toFixed(3)})`;
}

const COLUMNS = {
  name: (l) => l.name,
  holder: (l) => l.holder ?? "\uffff",
  since: (l) => (l.holder === null || l.since === null ? -Infinity : -l.since),
  remaining: (l) => l.remaining ?? Infinity,
  count: (l) => (l.holder === null ? 0 : l.hold_count),
  votes: (l) => votes(l),
  waiters: (l) => l.queue_length,
};
// What one looks for in these is the most.
const DOWN_FIRST = new Set(["since", "count", "waiters"]);
const collator = new Intl.Collator("en", { numeric: true });

export class Table {
  constructor(chosen) {
    this.rows = document.getElementById("rows");
    this.sort = { by: "name", down: false };
    this.locks = [];
    for (const head of document.querySelectorAll("th[data-sort]")) {
      head.addEventListener("click", () => {
        const by = head.dataset.sort;
        this.sort = { by, down: this.sort.by === by ? !this.sort.down : DOWN_FIRST.has(by) };
        this.marks();
        this.draw(this.locks, this.selected);
      });
    }
    this.rows.addEventListener("click", (event) => {
      const row = event.target.closest("tr");
      if (row && !getSelection().toString()) chosen(row.lock.name);
    });
    this.rows.addEventListener("keydown", (event) => {
      const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
      const next = step && event.target.closest("tr")?.[step];
      if (next) {
        event.preventDefault();
        next.querySelector("button").focus();
      }
    });
    this.marks();
  }

  marks() {
    for (const head of document.querySelectorAll("th[data-sort]")) {
      const mine = head.dataset.sort === this.sort.by;
      attribute(head, "aria-sort", mine ? (this.sort.down ? "descending" : "ascending") : null);
    }
  }

  draw(locks, selected) {
    this.locks = locks;
    this.selected = selected;
    const of = COLUMNS[this.sort.by], way = this.sort.down ? -1 : 1;
    const order = (a, b) => {
      const x = of(a), y = of(b);
      const first = typeof x === "string" ? collator.compare(x, y) : x === y ? 0 : x < y ? -1 : 1;
      return way * first || collator.compare(a.name, b.name) || (a.name < b.name ? -1 : 1);
    };
    const sorted = locks.map((lock) => lock).sort(order);
    // A row that moves loses the focus: give it back.
    const focused = this.rows.contains(document.activeElement) ? document.activeElement : null;
    keep(this.rows, sorted, (l) => l.name, (l) => this.born(l), (row, l) => this.update(row, l));
    if (focused?.isConnected && focused !== document.activeElement) focused.focus({ preventScroll: true });
  }

  born(lock) {
    const cell = (name, className, ...children) => {
      const td = make("td", className, ...children);
      td.dataset.label = name;
      td.setAttribute("role", "cell");
      return td;
    };
    const row = make("tr");
    row.setAttribute("role", "row");
    const name = make("bdi"), button = make("button", "name", name);
    button.type = "button";
    name.textContent = shown(lock.name);
    row.parts = {
      button, who: make("span", "who"), since: make("span"), left: make("span", "left"),
      bar: make("span", "bar", make("i")), count: make("span"), pips: make("span", "pips"), votes: make("span"),
      waiters: make("span"),
    };
    const p = row.parts;
    p.bar.setAttribute("aria-hidden", "true");
    p.pips.setAttribute("aria-hidden", "true");
    row.append(
      cell("Lock", "c-name", button), cell("Holder", "c-holder", p.who), cell("Held for", "c-since", p.since),
      cell("Lease left", "c-left", p.bar, p.left), cell("Count", "c-count number", p.count),
      cell("Votes", "c-votes", p.pips, p.votes), cell("Waiting", "c-waiters number", p.waiters),
    );
    return row;
  }

  update(row, lock) {
    const p = row.parts, state = standing(lock);
    row.lock = lock;
    attribute(row, "data-state", state);
    attribute(row, "data-plain", lock.queue_length === 0 && lock.hold_count <= 1 ? "" : null);
    attribute(p.button, "aria-expanded", String(lock.name === this.selected));
    attribute(row, "aria-current", lock.name === this.selected ? "true" : null);
    if (p.who.token !== lock.holder || p.who.state !== state) {
      p.who.token = lock.holder;
      p.who.state = state;
      p.who.replaceChildren(...who(lock.holder, state));
    }
    text(p.count, lock.holder === null ? "" : String(lock.hold_count));
    text(p.votes, `${votes(lock)}/${lock.masters.length}`);
    text(p.waiters, lock.queue_length ? lock.queue_length.toLocaleString("en") : "–");
    attribute(p.waiters, "class", lock.queue_length ? "some" : "none");
    pips(p.pips, lock);
  }

  // What changes between two looks: `now` is the masters' instant as far as we know it, `since` seconds after the look.
  tick(now, since) {
    for (const row of this.rows.children) {
      const { lock, parts: p } = row;
      text(p.since, lock.holder === null || lock.since === null ? "" : seconds(now - lock.since));
      countdown(p.bar, p.left, lock, since);
    }
  }
}

export function countdown(bar, label, lock, since) {
  const counts = lock.holder !== null && lock.remaining !== null;
  bar.hidden = !counts;
  if (!counts) {
    if (label) text(label, lock.holder !== null ? "no expiry" : "");
    return;
  }
  const left = Math.max(0, lock.remaining - since);
  share(lock.name, lock.remaining);
  drain(bar, share(lock.name, left));
  if (label) text(label, `${left.toFixed(1)} s`);
}

function who(token, state) {
  if (token === null) return [make("em", "quiet", { free: "free", unknown: "unknown" }[state] ?? "nobody has a quorum")];
  const { host, pid, thread } = owner(token);
  const part = (className, value) => make("bdi", className, shown(value));
  if (!pid) return [part("host", host)];
  const slash = () => make("span", "slash", " / ");
  return [part("host", host), slash(), part("pid", pid), slash(), part("thread", thread)];
}
