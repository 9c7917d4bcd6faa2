// The lock on independent masters: acquire, renew, heal, hand on, release, restart; one lock, whole ticks.
//
//     lock T=3 D=1 guard=3 late=1 ... until=violation
//
// prints one line `result ...`, and the steps of a shortest way to what it was told to look for. The names of
// the rules are those of `Rules` in world.hpp; docs/model.md says what is left out, and why that is enough.

#include "search.hpp"
#include "world.hpp"

namespace {

enum Event : unsigned { OVERLAP = 1, REVIVED = 2, HEALED_COUNTED = 4, HANDED_ON = 8, OUTLIVED_ALL = 16, WON = 32 };

class Lock {
    const Rules r;
    const Packing packing;

    bool of_age(const Master& m) const { return m.age >= r.guard; }
    bool valid(const Client& c) const { return c.phase == HOLDING && c.left > 0; }

    static int votes(const World& w, int c, Vote vote) {
        return static_cast<int>(
            std::count_if(w.master.begin(), w.master.end(), [=](const Master& m) { return m.vote[c] == vote; }));
    }

    // Whether no acquisition that began before now can still be under way when the validity ends.
    bool in_time(const World& w, int c) const {
        const int left = w.client[c].left;
        return left > 0 && (r.equal_too ? r.limit(c) <= left : r.limit(c) < left);
    }

    int counted(const World& w, int c) const {
        const bool holds = w.client[c].phase == HOLDING, heir = w.client[c].phase == SUCCEEDING;
        const bool conditional = holds && (r.naive || (!r.on_answer && in_time(w, c)));
        int count = votes(w, c, COUNTS);
        if (conditional) count += votes(w, c, HEALED);
        if (conditional || (holds && r.young_yes) || (heir && r.young_heir)) count += votes(w, c, YOUNG);
        return count;
    }

    // Each round's commands go to all masters; those of the rounds before are still on their way.
    void round(World& w, int c, Vote vote) const {
        w.client[c].since = 0;
        for (Master& m : w.master) {
            if (r.plain && m.vote[c] == PENDING && w.client[c].phase != IDLE) m.earlier[c] = true;
            m.vote[c] = vote;
        }
    }
    Vote no_round() const { return r.plain ? GONE : PENDING; }

    void over(World& w, int c) const {
        w.client[c] = Client{};
        round(w, c, PENDING);
        for (Master& m : w.master) {
            if (m.owner == c) m.owner = r.keep || r.unchecked ? OVER : FREE;
            m.earlier[c] = r.unchecked != 0;
        }
    }

    // A round without an answer is as good as one that begins now: an earlier start only ends the lease earlier.
    void tidy(World& w) const {
        for (int c = 0; c < clients && !r.plain; ++c) {
            if (votes(w, c, PENDING) + votes(w, c, GONE) < masters) continue;
            if (valid(w.client[c])) round(w, c, PENDING);
            if (w.client[c].phase == ACQUIRING) over(w, c);
        }
    }

    void restart(World& w, int i) const {
        Master& m = w.master[i];
        m.owner = FREE;
        m.age = 0;
        for (int c = 0; c < clients; ++c) {
            const Phase phase = w.client[c].phase;
            Vote& vote = m.vote[c];
            if (!r.late) m.earlier[c] = false;
            if (vote == PENDING && phase != IDLE && !r.late) vote = GONE;
            if (vote == SENT_YES || vote == SENT_HEALED) vote = GONE;
            // A holder may have had the reply before; to the others a young vote is worth nothing.
            if (vote == YOUNG && !r.plain) vote = phase == HOLDING ? HEALED : GONE;
        }
    }

    bool still_collects(const Client& c, int name) const {
        return !r.by_votes || c.phase == HOLDING || c.since <= r.limit(name);
    }

    void tick(World& w) const {
        for (int c = 0; c < clients; ++c) {
            Client& client = w.client[c];
            const bool round = client.phase != HOLDING || votes(w, c, GONE) < masters;
            if (client.phase == IDLE) continue;
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
            if (m.age < r.guard) ++m.age;
            for (int c = 0; c < clients; ++c)
                if (!r.plain && m.vote[c] == YOUNG && of_age(m) && still_collects(w.client[c], c)) m.vote[c] = COUNTS;
        }
    }

    // Before the reply has come; that it comes at once is one of the ways it may go.
    Vote yes(const Master& m) const { return r.plain ? SENT_YES : of_age(m) ? COUNTS : YOUNG; }

    // A command of client c runs on master i.
    template <class F>
    void runs(const World& w, int c, int i, F emit) const {
        const Client& client = w.client[c];
        const Master& m = w.master[i];
        const bool mine = m.owner == c, pending = m.vote[c] == PENDING;
        if ((!mine && m.owner != FREE) || !still_collects(client, c)) return;
        // A release never overtakes, and is never overtaken, on one connection.
        if (r.unchecked && !r.late && m.earlier[c]) return;
        World next = w;
        Master& n = next.master[i];
        n.owner = static_cast<unsigned char>(c);
        n.left = static_cast<unsigned char>(r.lease(c));
        if (client.phase == ACQUIRING || (client.phase == IDLE && !r.plain)) {
            if (mine || !pending) return;
            next.client[c].phase = ACQUIRING;
            n.vote[c] = yes(m);
            emit(next, {of_age(m) ? "granted" : "granted-young", c, i});
            return;
        }
        if (client.phase == IDLE || !(mine || r.heal)) return;
        // The renewal of an earlier round: it tells nothing, but it writes. On one connection it runs before
        // the present round's command. An heir's key it does not find to be its own.
        const bool earlier = r.plain ? m.earlier[c] : pending || r.late;
        if (earlier && (pending || client.phase == HOLDING)) emit(next, {"late", c, i});
        if (!pending || (client.phase == SUCCEEDING && !mine)) return;
        if (!r.late) n.earlier[c] = false;
        n.vote[c] = mine ? yes(m) : r.plain ? SENT_HEALED : HEALED;
        if (r.on_answer && client.phase == HOLDING && in_time(w, c)) n.vote[c] = COUNTS;
        if (client.phase == SUCCEEDING) emit(next, {of_age(m) ? "handed" : "handed-young", c, i});
        else emit(next, {!mine ? "heals" : of_age(m) ? "extended" : "extended-young", c, i});
    }

    template <class F>
    void reply(const World& w, int c, int i, F emit) const {
        const Vote sent = w.master[i].vote[c];
        if (sent != SENT_YES && sent != SENT_HEALED) return;
        World next = w;
        Vote& vote = next.master[i].vote[c];
        if (sent == SENT_HEALED) vote = HEALED;
        else vote = of_age(w.master[i]) ? COUNTS : w.client[c].phase == ACQUIRING ? GONE : YOUNG;
        emit(next, {"reply", c, i});
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
        if (counted(w, c) >= r.quorum) wins(w, c, emit);
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
        round(next, c, no_round());
        next.client[c] = Client{};
        next.client[c].phase = HOLDING;
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
        if (client.phase == HOLDING && votes(w, c, COUNTS) < r.quorum) {
            event |= HEALED_COUNTED;
            if (std::all_of(w.master.begin(), w.master.end(), young)) event |= OUTLIVED_ALL;
        }
        const char* const kind = client.phase == ACQUIRING ? "wins" : client.phase == HOLDING ? "renewed" : "succeeds";
        emit(next, {kind, c, -1, event});
    }

    template <class F>
    void happens_to(const World& w, int i, F emit) const {
        const Master& m = w.master[i];
        World next = w;
        restart(next, i);
        emit(next, {"restart", -1, i});
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

    World first() const {
        World w;
        for (Master& m : w.master) m.age = static_cast<unsigned char>(r.guard);
        return w;
    }

    template <class F>
    void each(const World& w, F take) const {
        const auto emit = [&](World& next, const Step& step) {
            for (Master& m : next.master)
                if (m.owner == FREE) m.left = 0;
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
    unsigned long long limit = 250'000'000;
    const std::map<std::string, int*> numbers = {
        {"T", &r.T}, {"T2", &r.T2}, {"D", &r.D}, {"D2", &r.D2}, {"guard", &r.guard}, {"quorum", &r.quorum},
        {"heal", &r.heal}, {"handon", &r.handon}, {"late", &r.late}, {"keep", &r.keep}, {"plain", &r.plain},
        {"quickly", &r.quickly}, {"by_votes", &r.by_votes}, {"naive", &r.naive}, {"young_yes", &r.young_yes},
        {"equal_too", &r.equal_too}, {"on_answer", &r.on_answer}, {"from_end", &r.from_end},
        {"unchecked", &r.unchecked}, {"young_heir", &r.young_heir}, {"revive", &r.revive},
    };
    const std::map<std::string, unsigned> events = {
        {"violation", OVERLAP | REVIVED}, {"overlap", OVERLAP}, {"healed", HEALED_COUNTED}, {"handed-on", HANDED_ON},
        {"outlived-all", OUTLIVED_ALL}, {"won", WON}, {"nothing", 0},
    };
    if (!command_line(argc, argv, numbers, events, limit, until)) return 2;
    if (!Packing::fits(r)) return std::fprintf(stderr, "out of range\n"), 2;
    // Behind each step: what is left of the validity of each client.
    return report(Lock(r), events.at(until), limit, [](const World& w) {
        for (const Client& c : w.client) std::printf(" %d", c.phase == HOLDING ? c.left : 0);
    });
}
