// The lock on independent masters: acquire, renew, heal, hand on, release, restart; one lock, whole ticks.
//
//     lock T=3 D=1 guard=3 late=1 ... until=violation
//
// prints one line `result ...`, and the steps of a shortest way to what it was told to look for. The names of
// the rules are those of `Rules` in world.hpp; docs/model.md says what is left out, and why that is enough.

#include "search.hpp"
#include "world.hpp"

namespace {

enum Event : unsigned {
    OVERLAP = 1, REVIVED = 2, HEALED_COUNTED = 4, HANDED_ON = 8, OUTLIVED_ALL = 16, WON = 32, KEPT = 64
};

class Lock {
    const Rules r;
    const Packing packing;

    bool valid(const Client& c) const { return c.phase == HOLDING && c.left > 0; }

    // guard_time: by the client's own max_ttl, or by the longer one that it has heard of.
    int guard_time(const Client& client, int c) const { return client.heard ? r.oldest() : r.own_guard(c); }
    bool of_age(const Master& m) const { return m.note == OWN && m.age >= r.guard; }

    struct Count {
        int counts = 0, healed = 0, young = 0;
        int all() const { return counts + healed + young; }
    };

    // A vote is judged by the note that its own command has read, at the decision.
    Count votes(const World& w, int c) const {
        Count count;
        const int guard = guard_time(w.client[c], c);
        for (const Master& m : w.master) {
            const Vote vote = m.vote[c];
            if (m.sent[c] || vote < HEALED) continue;
            ++(vote == HEALED ? count.healed : vote - YES >= guard ? count.counts : count.young);
        }
        return count;
    }

    // What the reply of a yes is worth, by the note that the command reads.
    Vote read(const World& w, int c, const Master& m) const {
        const int age = !r.look || (r.believes && m.note == OWN) ? m.start
                        : m.note == NONE                         ? (r.none_is_old ? r.oldest() : -1)
                                                                 : m.age;
        if (age < 0) return w.client[c].phase == HOLDING ? HEALED : GONE;
        return Vote(YES + (!r.rejudge && age >= guard_time(w.client[c], c) ? r.oldest() : age));
    }

    // Whether no acquisition that began before now can still be under way when the validity ends.
    bool in_time(const World& w, int c) const {
        const int left = w.client[c].left, limit = r.greatest_d ? std::max(r.D, r.D2) : r.limit(c);
        return left > 0 && (r.equal_too ? limit <= left : limit < left);
    }

    int counted(const World& w, int c) const {
        const bool holds = w.client[c].phase == HOLDING, heir = w.client[c].phase == SUCCEEDING;
        const bool conditional = holds && (r.naive || (!r.on_answer && in_time(w, c)));
        const Count count = votes(w, c);
        return count.counts + (conditional ? count.healed : 0) +
               (conditional || (holds && r.young_yes) || (heir && r.young_heir) ? count.young : 0);
    }

    // Each round's commands go to all masters; those of the rounds before are still on their way.
    void round(World& w, int c, Vote vote) const {
        w.client[c].since = w.client[c].read = 0;
        for (Master& m : w.master) {
            if (r.plain && m.vote[c] == PENDING && w.client[c].phase != IDLE) m.earlier[c] = true;
            m.vote[c] = vote;
            m.sent[c] = false;
        }
    }

    void over(World& w, int c) const {
        w.client[c] = Client{};
        round(w, c, PENDING);
        for (Master& m : w.master) {
            if (m.owner == c) m.owner = r.keep || r.unchecked ? OVER : FREE;
            m.earlier[c] = r.unchecked != 0;
        }
    }

    bool still_collects(const Client& c, int name) const {
        return !r.by_votes || c.phase == HOLDING || c.since <= r.limit(name);
    }

    // How long the round may still go on, and its votes may come of age.
    int rest(const Client& c, int name) const {
        if (c.phase == HOLDING) return r.revive ? r.lease(name) : c.left - 1;
        return (r.quickly ? r.limit(name) : r.lease(name) - 1) - c.since;
    }

    // One state for all that go on alike.
    void tidy(World& w) const {
        for (Master& m : w.master) {
            if (m.owner == FREE) m.left = 0;
            if (m.note == NONE) m.age = 0, m.longer = false;
            if (m.note != OWN && r.prompt) greet(m);
            // The age in a foreign note is asked for where it is kept, only.
            if (m.note == FOREIGN && !keeps(m) && r.handshake) m.age = 0;
            if (m.note == FOREIGN && !m.durable && !r.evict) m.tainted = false;
            if (m.note == OWN && !r.evict) m.tainted = false;
            if ((m.tainted || (m.note == OWN && !r.evict)) && !r.start_matters()) m.start = 0;
        }
        for (int c = 0; c < clients && !r.plain; ++c) {
            Client& client = w.client[c];
            bool begun = false;
            for (Master& m : w.master) {
                Vote& vote = m.vote[c];
                const bool never = vote >= YES && vote - YES + rest(client, c) < r.own_guard(c);
                if (never && client.phase == HOLDING && !r.young_yes) vote = HEALED;
                if (never && client.phase != HOLDING && !r.young_heir) vote = GONE;
                begun = begun || vote >= HEALED;
            }
            // A round without an answer is as good as one that begins now: earlier, the lease only ends earlier.
            if (begun) continue;
            if (valid(client)) round(w, c, PENDING);
            if (client.phase == ACQUIRING) over(w, c);
        }
    }

    void tick(World& w) const {
        for (int c = 0; c < clients; ++c) {
            Client& client = w.client[c];
            if (client.phase == IDLE) continue;
            const auto gone = [c](const Master& m) { return m.vote[c] == GONE; };
            const bool round = client.phase != HOLDING || !std::all_of(w.master.begin(), w.master.end(), gone);
            for (Master& m : w.master)
                if (m.vote[c] >= YES && m.vote[c] < YES + r.oldest() && still_collects(client, c))
                    m.vote[c] = Vote(m.vote[c] + 1);
            client.since = static_cast<unsigned char>(round ? client.since + 1 : 0);
            if (client.phase == HOLDING) {
                if (client.left > 0) --client.left;
                if (client.left == 0 && (!r.revive || !round || client.since >= r.lease(c))) over(w, c);
            } else if (client.since >= r.lease(c) || (r.quickly && !r.by_votes && client.since > r.limit(c))) {
                over(w, c);
            }
        }
        for (Master& m : w.master) {
            if (m.owner != FREE && --m.left == 0) m.owner = FREE;
            if (m.age < r.oldest()) ++m.age;
            if (m.start < r.oldest()) ++m.start;
        }
    }

    // A command of client c runs on master i. No command comes to a life that no hello has come to.
    template <class F>
    void runs(const World& w, int c, int i, F emit) const {
        const Client& client = w.client[c];
        const Master& m = w.master[i];
        const bool mine = m.owner == c, pending = m.vote[c] == PENDING;
        const bool age = read(w, c, m) >= YES + guard_time(client, c);
        if (m.note == FOREIGN && r.handshake) return;
        if ((!mine && m.owner != FREE) || !still_collects(client, c)) return;
        // A release never overtakes, and is never overtaken, on one connection.
        if (r.unchecked && !r.late && m.earlier[c]) return;
        World next = w;
        Master& n = next.master[i];
        n.owner = static_cast<unsigned char>(c);
        n.left = static_cast<unsigned char>(r.lease(c));
        n.longer = r.guard2 >= 0 && m.note != NONE && (m.longer || r.lease(c) == r.longest());
        if (client.phase == ACQUIRING || (client.phase == IDLE && !r.plain)) {
            if (mine || !pending) return;
            next.client[c].phase = ACQUIRING;
            answers(next, c, i, read(w, c, m));
            return emit(next, {age ? "granted" : "granted-young", c, i});
        }
        if (client.phase == IDLE || !(mine || r.heal)) return;
        // The renewal of an earlier round: it tells nothing, but it writes. On one connection it runs before
        // the present round's command. An heir's key it does not find to be its own.
        const bool earlier = r.plain ? m.earlier[c] : pending || r.late;
        if (earlier && (pending || client.phase == HOLDING)) emit(next, {"late", c, i});
        if (!pending || (client.phase == SUCCEEDING && !mine)) return;
        if (!r.late) n.earlier[c] = false;
        const bool at_once = r.on_answer && client.phase == HOLDING && in_time(w, c);
        answers(next, c, i, at_once ? Vote(YES + r.oldest()) : mine ? read(w, c, m) : HEALED);
        if (client.phase == SUCCEEDING) emit(next, {age ? "handed" : "handed-young", c, i});
        else emit(next, {!mine ? "heals" : age ? "extended" : "extended-young", c, i});
    }

    void answers(World& w, int c, int i, Vote vote) const {
        w.master[i].vote[c] = vote;
        w.master[i].sent[c] = r.plain;
        hears(w, c, i);
    }
    // The longest lease that a note tells of.
    void hears(World& w, int c, int i) const {
        Client& client = w.client[c];
        client.heard = client.heard || (r.own_guard(c) < r.oldest() && w.master[i].longer);
        if (r.hears_all) client.read |= static_cast<unsigned char>(1 << i);
    }

    template <class F>
    void reply(const World& w, int c, int i, F emit) const {
        World next = w;
        if (w.master[i].sent[c]) {
            next.master[i].sent[c] = false;
            emit(next, {"reply", c, i});
        }
        if (!r.hears_all || w.client[c].phase == IDLE || w.client[c].read >> i & 1) return;
        hears(next = w, c, i);
        emit(next, {"reads", c, i});
    }

    template <class F>
    void decides(const World& w, int c, F emit) const {
        const Client& client = w.client[c];
        if (client.phase == IDLE) {
            if (!r.plain) return;
            World next = w;
            next.client[c].phase = ACQUIRING;
            return emit(next, {"starts", c});
        }
        const bool heard_all = !r.hears_all || client.read == (1 << masters) - 1;
        if (counted(w, c) >= r.quorum && heard_all) wins(w, c, emit);
        World next = w;
        over(next, c);
        emit(next, {client.phase == HOLDING ? "releases" : "gives-up", c});
        if (!valid(client)) return;
        round(next = w, c, PENDING);
        emit(next, {"new-round", c});
        if (!r.handon) return;
        next.client[c] = Client{};
        next.client[c].phase = SUCCEEDING;
        emit(next, {"hands-on", c});
    }

    template <class F>
    void wins(const World& w, int c, F emit) const {
        const Client& client = w.client[c];
        World next = w;
        round(next, c, r.plain ? GONE : PENDING);
        next.client[c] = Client{};
        next.client[c].phase = HOLDING;
        next.client[c].heard = client.heard;
        next.client[c].left = static_cast<unsigned char>(r.lease(c) - (r.from_end ? 0 : client.since));
        // A hold reaches from its first instant to the last end of its validity. If that moved on after
        // somebody else had the lock, the two overlap.
        unsigned event = client.interrupted ? REVIVED | WON : WON;
        for (int other = 0; other < clients; ++other) {
            if (other == c) continue;
            if (valid(w.client[other])) event |= OVERLAP;
            else if (w.client[other].phase == HOLDING) next.client[other].interrupted = true;
        }
        const auto young = [this](const Master& m) { return !of_age(m); };
        if (client.phase == SUCCEEDING) event |= HANDED_ON;
        if (client.phase == HOLDING && votes(w, c).counts < r.quorum) {
            event |= HEALED_COUNTED;
            if (std::all_of(w.master.begin(), w.master.end(), young)) event |= OUTLIVED_ALL;
        }
        const char* const kind = client.phase == ACQUIRING ? "wins" : client.phase == HOLDING ? "renewed" : "succeeds";
        emit(next, {kind, c, -1, event});
    }

    bool keeps(const Master& m) const { return (m.durable && !m.tainted) || r.leaves; }
    // The first script on a connection. All that it goes by is what it finds on the master in the same step.
    void greet(Master& m) const {
        const bool first_use = m.note == NONE && (r.trusts_start || (!m.tainted && !r.saw_none));
        if (m.note == NONE && m.durable && r.durable_old) m.age = static_cast<unsigned char>(r.oldest());
        else if (first_use) m.age = m.start;
        else if (m.note == NONE || !keeps(m)) m.age = 0;
        m.note = OWN;
    }

    // Of any client, idle and looking ones too, at any time after it was sent: one that was sent before a flush
    // is no other than a later one.
    template <class F>
    void hello(const World& w, int i, F emit) const {
        World next = w;
        Master& n = next.master[i];
        if (n.note == OWN) return;
        greet(n);
        emit(next, {w.master[i].note == FOREIGN ? "hello-foreign" : "hello-none", -1, i, w.master[i].note == FOREIGN && n.age ? KEPT : 0u});
        if (!r.saw_none || w.master[i].note == FOREIGN || n.start < r.oldest()) return;
        // When the model begins, every client has seen that no master has a note.
        n.age = n.start;
        emit(next, {"hello-saw-none", -1, i});
    }

    // The server starts anew; commands and replies under way are lost with their connection, unless `late`.
    void restart(World& w, int i, bool whole) const {
        Master& m = w.master[i];
        if (!whole) m.owner = FREE;
        m.note = whole && m.note != NONE ? FOREIGN : NONE;
        m.start = 0;
        m.tainted = false;
        for (int c = 0; c < clients; ++c) {
            if (!r.late) m.earlier[c] = false;
            if ((m.vote[c] == PENDING && w.client[c].phase != IDLE && !r.late) || m.sent[c]) m.vote[c] = GONE;
            m.sent[c] = false;
        }
    }

    template <class F>
    void loses_memory(const World& now, int i, F emit) const {
        World w = now, next;
        if (r.losses != 99 && w.losses-- == 0) return;
        restart(next = w, i, false);
        emit(next, {"restart", -1, i});
        if (r.flush) {
            next = w;
            next.master[i].owner = FREE;
            next.master[i].note = NONE;
            next.master[i].tainted = true;
            emit(next, {"flush", -1, i});
        }
        // An older memory: with no lock, the present one, or one of an earlier round; with a note of any age, or
        // from before there was one.
        for (int owner = 0; r.older && owner <= FREE; ++owner) {
            const bool same = owner == OVER;
            if (owner < clients && w.client[owner].phase != HOLDING) continue;
            for (int left = owner < clients ? r.lease(owner) : 1; left > 0; --left) {
                restart(next = w, i, false);
                Master& n = next.master[i];
                n.owner = same ? w.master[i].owner : static_cast<unsigned char>(owner);
                n.left = same ? w.master[i].left : static_cast<unsigned char>(left);
                n.age = static_cast<unsigned char>(r.oldest());
                if (!w.master[i].durable) emit(next, {"restart-older", -1, i});
                n.note = FOREIGN;
                if (!w.master[i].durable) emit(next, {"restart-older", -1, i});
                n.tainted = true;
                if (r.replica && w.master[i].durable) emit(next, {"promoted", -1, i});
                n.note = NONE;
                if (r.replica) emit(next, {"promoted", -1, i});
            }
        }
    }

    template <class F>
    void happens_to(const World& w, int i, F emit) const {
        const Master& m = w.master[i];
        World next = w;
        loses_memory(w, i, emit);
        hello(w, i, emit);
        if (m.durable) {
            restart(next = w, i, true);
            emit(next, {"restart-whole", -1, i});
        }
        if (r.evict && m.note != NONE) {
            (next = w).master[i].note = NONE;
            emit(next, {"evicted", -1, i});
        }
        if (r.keep && m.owner == FREE) {
            (next = w).master[i].owner = OVER;
            next.master[i].left = static_cast<unsigned char>(r.longest());
            emit(next, {"ghost", -1, i});
        }
        if (m.owner == OVER && !r.unchecked) {
            (next = w).master[i].owner = FREE;
            emit(next, {"undone", -1, i});
        }
        for (int c = 0; c < clients && r.unchecked; ++c) {
            if (!m.earlier[c]) continue;
            (next = w).master[i].owner = FREE;
            next.master[i].earlier[c] = false;
            emit(next, {"deletes", c, i});
        }
    }

public:
    using Key = Packing::Key;
    using World = ::World;

    explicit Lock(const Rules& rules) : r(rules), packing(rules) {}

    // A fleet that has run for long, and that rlock has not come to yet.
    World first() const {
        World w;
        for (int i = 0; i < masters; ++i) {
            w.master[i].start = static_cast<unsigned char>(r.oldest());
            w.master[i].durable = i < r.durable;
        }
        w.losses = static_cast<unsigned char>(r.losses);
        tidy(w);
        return w;
    }

    template <class F>
    void each(const World& w, F take) const {
        const auto emit = [&](World next, const Step& step) {
            tidy(next);
            take(next, step);
        };
        for (int c = 0; c < clients; ++c) {
            decides(w, c, emit);
            for (int i = 0; i < masters; ++i) {
                runs(w, c, i, emit);
                reply(w, c, i, emit);
            }
        }
        for (int i = 0; i < masters; ++i) happens_to(w, i, emit);
        World next = w;
        tick(next);
        emit(next, {"tick"});
    }

    Key canonical(const World& w) const { return packing.canonical(w); }
    Key start() const { return packing.canonical(first()); }

    template <class F>
    void each(Key key, F take) const {
        each(packing.unpacked(key),
             [&](const World& next, const Step& step) { take(packing.canonical(next), step.event); });
    }
};

}  // namespace

int main(int argc, char** argv) {
    Rules r;
    std::string until = "violation";
    unsigned long long limit = 200'000'000;
    const std::map<std::string, int*> numbers = {
        {"T", &r.T}, {"T2", &r.T2}, {"D", &r.D}, {"D2", &r.D2}, {"guard", &r.guard}, {"guard2", &r.guard2},
        {"quorum", &r.quorum}, {"heal", &r.heal}, {"handon", &r.handon}, {"durable", &r.durable},
        {"flush", &r.flush}, {"older", &r.older}, {"prompt", &r.prompt}, {"replica", &r.replica}, {"evict", &r.evict},
        {"losses", &r.losses}, {"late", &r.late}, {"keep", &r.keep}, {"plain", &r.plain},
        {"handshake", &r.handshake}, {"look", &r.look}, {"none_is_old", &r.none_is_old}, {"leaves", &r.leaves},
        {"trusts_start", &r.trusts_start}, {"saw_none", &r.saw_none}, {"durable_old", &r.durable_old},
        {"believes", &r.believes}, {"rejudge", &r.rejudge}, {"hears_all", &r.hears_all},
        {"greatest_d", &r.greatest_d},
        {"quickly", &r.quickly}, {"by_votes", &r.by_votes}, {"naive", &r.naive}, {"young_yes", &r.young_yes},
        {"equal_too", &r.equal_too}, {"on_answer", &r.on_answer}, {"from_end", &r.from_end},
        {"unchecked", &r.unchecked}, {"young_heir", &r.young_heir}, {"revive", &r.revive},
    };
    const std::map<std::string, unsigned> events = {
        {"violation", OVERLAP | REVIVED}, {"overlap", OVERLAP}, {"healed", HEALED_COUNTED}, {"handed-on", HANDED_ON},
        {"outlived-all", OUTLIVED_ALL}, {"won", WON}, {"kept", KEPT}, {"nothing", 0},
    };
    if (!command_line(argc, argv, numbers, events, limit, until)) return 2;
    if (!Packing(r).fits()) return std::fprintf(stderr, "out of range\n"), 2;
    // Behind each step: what is left of the validity of each client.
    return report(Lock(r), events.at(until), limit, [](const World& w) {
        for (const Client& c : w.client) std::printf(" %d", c.phase == HOLDING ? c.left : 0);
    });
}
