// Elements of the page, and the table of locks. Rows are kept from look to look, so that a selection stays.
import { owner, seconds, shown, standing, view, votes } from "./words.js";

export function make(tag, className, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children);
  return element;
}

// Only changes are written: a selection stays, and nothing is laid out twice.
export function text(element, value) {
  if (element.textContent !== value) element.textContent = value;
}

export function attribute(element, name, value) {
  if (value === null) element.removeAttribute(name);
  else if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

// Make the children of `parent` those of `items`, in order; each is made once for its key.
export function keep(parent, items, key, create, update) {
  const known = parent.kept ?? (parent.kept = new Map()), seen = new Set();
  let place = parent.firstElementChild;
  items.forEach((item, i) => {
    const id = key(item, i);
    let element = known.get(id);
    if (!element) known.set(id, (element = create(item)));
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

export function leaseLeft(lock, since) {
  if (lock.holder === null) return "";
  return lock.remaining === null ? "no expiry" : `${Math.max(0, lock.remaining - since).toFixed(1)} s`;
}

const collator = new Intl.Collator("en", { numeric: true });
// Locks that are waited for go first, the longest queue before.
const compare = (a, b) => b.queue_length - a.queue_length || collator.compare(a.name, b.name) || (a.name < b.name ? -1 : 1);

export class Table {
  constructor(choose) {
    this.rows = document.getElementById("rows");
    this.rows.addEventListener("click", (event) => {
      const row = event.target.closest("tr");
      if (row && !getSelection().toString()) choose(row.lock.name);
    });
  }

  draw(locks, selected) {
    // A row that moves loses the focus: give it back.
    const focused = this.rows.contains(document.activeElement) ? document.activeElement : null;
    const update = (row, lock) => this.update(row, lock, lock.name === selected);
    keep(this.rows, [...locks].sort(compare), (l) => l.name, createRow, update);
    if (focused?.isConnected && focused !== document.activeElement) focused.focus({ preventScroll: true });
  }

  update(row, lock, selected) {
    const p = row.parts, state = standing(lock);
    row.lock = lock;
    attribute(row, "data-state", state);
    attribute(p.button, "aria-expanded", String(selected));
    attribute(row, "aria-current", selected ? "true" : null);
    if (p.holder.token !== lock.holder || p.holder.state !== state) {
      Object.assign(p.holder, { token: lock.holder, state });
      p.holder.replaceChildren(...holder(lock.holder, state));
    }
    text(p.count, lock.holder === null ? "" : String(lock.hold_count));
    text(p.votes, `${votes(lock)}/${lock.masters.length}`);
    text(p.waiters, lock.queue_length ? lock.queue_length.toLocaleString("en") : "–");
    attribute(p.waiters, "class", lock.queue_length ? "some" : "none");
    keep(p.pips, lock.masters, (v) => v.master, () => make("i"), (pip, v) => {
      const seen = view(v, lock);
      attribute(pip, "data-kind", seen.kind);
      attribute(pip, "title", `${v.master}: ${seen.text}`);
    });
  }

  // Between two looks: `now` is the masters' instant as far as we know it, `since` the seconds after the look.
  tick(now, since) {
    for (const { lock, parts } of this.rows.children) {
      text(parts.since, lock.holder === null || lock.since === null ? "" : seconds(now - lock.since));
      text(parts.left, leaseLeft(lock, since));
    }
  }
}

function createRow(lock) {
  const row = make("tr"), button = make("button", "name", make("bdi", "", shown(lock.name)));
  button.type = "button";
  const p = row.parts = { button, pips: make("span", "pips") };
  for (const name of ["holder", "since", "left", "count", "votes", "waiters"]) p[name] = make("span");
  p.pips.setAttribute("aria-hidden", "true");
  row.append(
    make("td", "", button), make("td", "c-holder", p.holder), make("td", "", p.since), make("td", "c-left", p.left),
    make("td", "number", p.count), make("td", "", p.pips, p.votes), make("td", "number", p.waiters),
  );
  return row;
}

function holder(token, state) {
  if (token === null) return [make("em", "quiet", { free: "free", unknown: "unknown" }[state] ?? "nobody has a quorum")];
  const { host, pid, thread } = owner(token);
  const part = (className, value) => make("bdi", className, shown(value));
  if (!pid) return [part("host", host)];
  const slash = () => make("span", "slash", " / ");
  return [part("host", host), slash(), part("pid", pid), slash(), part("thread", thread)];
}
