// Words and figures: what is said of masters, locks and owners. Nothing here touches the page.

// Half a surrogate pair has no UTF-8 and encodeURIComponent throws on it. Controls and marks that turn the
// direction of text are shown as what they are, or one name could be made to look like another.
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

export function shown(text) {
  return text.replace(UNSEEN, (c) => `⟨U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

// As `rlock status` says it: 0.4 s, 12 s, 3 min 20 s, 5 h 2 min, 3 d 4 h.
export function seconds(value) {
  const s = Math.max(0, value);
  if (s < 9.95) return `${s.toFixed(1)} s`;
  if (s < 120) return `${Math.round(s)} s`;
  if (s < 7200) return `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
  if (s < 172800) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

export function brief(value) {
  if (value < 0.00095) return `${Math.round(value * 1e6)} µs`;
  if (value < 0.0095) return `${(value * 1000).toFixed(1)} ms`;
  return value < 1 ? `${Math.round(value * 1000)} ms` : `${value.toFixed(1)} s`;
}

export function bytes(value) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let i = 0;
  for (; value >= 1000 && i < units.length - 1; i += 1) value /= 1000;
  return `${value < 10 && i ? value.toFixed(1) : Math.round(value)} ${units[i]}`;
}

export function number(value) {
  return value < 10 && value % 1 ? value.toFixed(1) : Math.round(value).toLocaleString("en");
}

export const many = (count, one, more = `${one}s`) => `${count.toLocaleString("en")} ${count === 1 ? one : more}`;

// As Swedes write it: 2026-11-22 19:38:07.
export const clock = (at) => new Date(at * 1000).toLocaleString("sv");

// An owner token is host/pid/thread:uuid; what others have written stays as it is.
export function owner(token) {
  const cut = token.lastIndexOf(":");
  const parts = token.slice(0, cut).split("/");
  if (cut < 0 || parts.length < 3) return { host: token, pid: "", thread: "", uuid: "" };
  const thread = parts.pop(), pid = parts.pop();
  return { host: parts.join("/"), pid, thread, uuid: token.slice(cut + 1) };
}

export const person = (token) => {
  const who = owner(token);
  return shown(who.pid ? `${who.host} / ${who.pid} / ${who.thread}` : who.host);
};

// A vote of a group counts when exactly all of its replicas acknowledge it.
const whole = ({ group: g }) => !g || g.replicas === 0 || (g.online === g.replicas && g.acknowledged === g.replicas);

export const mayVote = (m) => m.fault === null && whole(m) && !(m.guarded > 0) && (m.role === null || m.role === "master");

// The state of the fleet: how bad it is, in how many words.
export function fleet(snapshot) {
  const all = snapshot.masters, n = all.length, q = snapshot.quorum;
  const up = all.filter((m) => m.fault === null).length, voting = all.filter(mayVote).length;
  const headline = `${up} of ${many(n, "master")} ${n === 1 || up === 1 ? "answers" : "answer"}, quorum ${q}`;
  if (up < q) return { level: "bad", headline, note: "No quorum: nobody can acquire a lock, and no lease is renewed." };
  if (voting < q) {
    const wait = Math.max(0, ...all.map((m) => m.guarded || 0));
    const why = wait > 0 ? `the restart guard ends in ${seconds(wait)}` : "see below";
    return { level: "bad", headline, note: `Only ${many(voting, "master")} may vote, nobody can acquire yet: ${why}.` };
  }
  const spare = voting - q;
  if (voting < n) {
    const rest = spare === 0 ? "none of the others may fail" : `${spare} more may fail`;
    return { level: "warn", headline, note: `Locks work; ${rest}.` };
  }
  return { level: "good", headline, note: spare === 0 ? "Locks work; no master may fail." : `All may vote; ${spare} may fail.` };
}

// One master: what it is now, and what somebody should look at.
export function master(m) {
  if (m.fault !== null) return { level: "bad", state: "no answer", remarks: [m.fault] };
  const remarks = [];
  let level = "good", state = "answers";
  const say = (how, text) => {
    remarks.push(text);
    if (level !== "bad") level = how;
  };
  if (m.role !== null && m.role !== "master") {
    say("bad", `It is a ${m.role}, no master: it has no vote.`);
    state = "no vote";
  }
  if (!whole(m)) {
    say("bad", `${m.group.acknowledged} of ${m.group.replicas} replicas acknowledge, ${m.group.online} online: no vote without exactly all of them.`);
    state = "no vote";
  }
  if (m.guarded > 0) {
    say("warn", `${m.group ? "Promoted or restarted" : "Restarted"}: it may have forgotten leases, so it has no vote for ${seconds(m.guarded)}.`);
    if (level !== "bad") state = "no vote yet";
  }
  if (m.clock_offset !== null && Math.abs(m.clock_offset) > 0.1) {
    say("warn", `Its clock is ${brief(Math.abs(m.clock_offset))} ${m.clock_offset > 0 ? "ahead of" : "behind"} the others.`);
  }
  if (m.latency !== null && m.latency > 0.1) say("warn", `It is slow: ${brief(m.latency)} for a round trip.`);
  if (m.unlisted) say("warn", `It does not tell which locks there are: ${m.unlisted}`);
  if (m.max_memory && m.memory > 0.9 * m.max_memory) {
    say("warn", `Its memory is nearly full: ${bytes(m.memory)} of ${bytes(m.max_memory)}.`);
  }
  return { level, state, remarks };
}

export function facts(m, at) {
  const told = [];
  const add = (what, value) => value !== null && value !== undefined && told.push([what, value]);
  const known = (value, how) => (value === null ? null : how(value));
  if (m.group) {
    add("leads for", known(m.group.since, (v) => seconds(at - v)));
    add("replicas", `${m.group.acknowledged} of ${m.group.replicas}`);
  }
  add("round trip", known(m.latency, brief));
  add("locks", known(m.locks, number));
  add("clock", known(m.clock_offset, (v) => (Math.abs(v) < 0.001 ? "in step" : `${v < 0 ? "−" : "+"}${brief(Math.abs(v))}`)));
  add("up for", known(m.uptime, seconds));
  add("commands/s", known(m.commands_per_second, number));
  add("memory", known(m.memory, (v) => (m.max_memory ? `${bytes(v)} of ${bytes(m.max_memory)}` : bytes(v))));
  add("clients", known(m.clients, number));
  add("restart", known(m.durable, (v) => (v ? "keeps all" : "forgets")));
  return told;
}

// How one master stands to a lock: what its pip shows.
export function view(v, lock) {
  if (v.fault !== null) return { kind: "fault", text: `no answer: ${v.fault}` };
  const guard = v.guarded ? " (restart guard: no vote yet)" : "";
  if (v.holder === null) return { kind: v.guarded ? "guarded" : "free", text: `no holder${guard}` };
  if (v.holder !== lock.holder) return { kind: "other", text: `${person(v.holder)}${guard}` };
  return { kind: v.guarded ? "guarded" : "vote", text: `votes for the holder${guard}` };
}

export const votes = (lock) => lock.masters.filter((v) => v.fault === null && v.holder !== null && v.holder === lock.holder).length;

export function standing(lock) {
  if (lock.holder !== null) return "held";
  if (lock.masters.some((v) => v.fault === null && v.holder !== null)) return "no quorum";
  return lock.free ? "free" : "unknown";
}
