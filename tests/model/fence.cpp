// Fencing tokens from three independent masters. No clock, no lease: any command may run at any time or never.
//
//     fence incr_max=0 any_owner=0 ahead=3 rounds=2 until=violation
//
// Each master stores a value and the owner that wrote it. A violation: two owners have one token, or one that
// began after another had its token has one that is not greater. Locks exclude nobody here: a token has to be
// right exactly when the leases are not.

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "search.hpp"

namespace {

#ifndef OWNERS
#define OWNERS 3
#endif
constexpr int masters = 3, owners = OWNERS, quorum = 2, most = 15;

struct Rules {
    int incr_max = 0;   // every master counts for itself, the client takes the greatest answer
    int any_owner = 0;  // a store of what is stored already is accepted whoever wrote it
    int ahead = 3;      // an owner proposes nothing, or this: a clock that is ahead
    int rounds = 2;     // of writing back, then it gives up
    int in_turn = 0;    // nobody begins before the others have ended
    int late = 1;       // what was sent may run after its round, and replies may be lost
    int give_up = 1;    // an owner may end without a token at any time
};

enum Phase : unsigned char { IDLE, ACQUIRING, STORING, STORING_AGAIN, DONE, FAILED };
enum Event : unsigned { VIOLATION = 1, ONE_ROUND = 2, WROTE_BACK = 4, TOO_GREAT = 8, ALL_DONE = 16 };

struct Master {
    unsigned char value = 0, owner = owners;
};

struct Answer {
    unsigned char value = 0;  // 0: none
    bool yes = false;         // to a store
};

struct Owner {
    Phase phase = IDLE;
    unsigned char value = 0;     // proposed; being stored; the token
    unsigned char before = 0;    // being stored in the round before: may still come
    unsigned char floor = 0;     // the greatest token that was known when it began
    unsigned char acquired = 0;  // masters on which its acquire has run
    unsigned char stored = 0;    // masters on which its present store has run
    std::array<Answer, masters> answer{};
};

}  // namespace

struct Fence {
    __extension__ using Key = unsigned __int128;
    struct World {
        std::array<Master, masters> master;
        std::array<Owner, owners> owner;
    };

    const Rules r;

    World first() const { return {}; }
    Key start() const { return canonical(first()); }

    // Masters are alike, and owners are: the least of all ways to name them.
    Key canonical(const World& w) const {
        std::array<int, masters> order;
        for (int i = 0; i < masters; ++i) order[i] = i;
        Key least = ~Key(0);
        do {
            std::array<std::pair<std::uint64_t, int>, owners> words;
            for (int c = 0; c < owners; ++c) words[c] = {word(w.owner[c], order), c};
            std::sort(words.begin(), words.end());
            const auto same = [](const auto& a, const auto& b) { return a.first == b.first; };
            const bool ties = std::adjacent_find(words.begin(), words.end(), same) != words.end();
            do {
                // Owners that differ in nothing but what a master knows of them may go either way.
                const auto by_word = [](const auto& a, const auto& b) { return a.first < b.first; };
                if (std::is_sorted(words.begin(), words.end(), by_word))
                    least = std::min(least, packed(w, words, order));
            } while (ties && std::next_permutation(words.begin(), words.end()));
        } while (std::next_permutation(order.begin(), order.end()));
        return least;
    }

    static std::uint64_t word(const Owner& o, const std::array<int, masters>& order) {
        std::uint64_t word = o.phase | o.value << 3 | o.before << 7 | o.floor << 11;
        int at = 15;
        for (const int i : order) {
            const unsigned at_master = (o.acquired >> i & 1) | (o.stored >> i & 1) << 1 | o.answer[i].value << 2 |
                                       o.answer[i].yes << 6;
            word |= std::uint64_t(at_master) << at;
            at += 7;
        }
        return word;
    }

    template <class Words>
    static Key packed(const World& w, const Words& words, const std::array<int, masters>& order) {
        Key key = 0;
        int at = 0;
        for (const int i : order) {
            unsigned name = owners;
            for (unsigned c = 0; c < owners; ++c)
                if (words[c].second == w.master[i].owner) name = c;
            key |= Key(w.master[i].value | name << 4) << at, at += 6;
        }
        for (const auto& [word, name] : words) key |= Key(word) << at, at += 36;
        return key;
    }

    static World unpacked(Key key) {
        const auto take = [&key](int bits) {
            const unsigned value = static_cast<unsigned>(key) & ((1u << bits) - 1);
            key >>= bits;
            return static_cast<unsigned char>(value);
        };
        World w;
        for (Master& m : w.master) m.value = take(4), m.owner = take(2);
        for (Owner& o : w.owner) {
            o.phase = Phase(take(3)), o.value = take(4), o.before = take(4), o.floor = take(4);
            for (int i = 0; i < masters; ++i) {
                o.acquired |= take(1) << i, o.stored |= take(1) << i;
                o.answer[i].value = take(4), o.answer[i].yes = take(1);
            }
        }
        return w;
    }

    // -- the scripts --------------------------------------------------------------------------------------

    unsigned char acquire(Master& m, int owner, int proposal) const {
        if (m.owner != owner) {
            m.value = static_cast<unsigned char>(r.incr_max ? m.value + 1 : std::max(m.value + 1, proposal));
            m.owner = static_cast<unsigned char>(owner);
        }
        return m.value;
    }

    Answer store(Master& m, int owner, unsigned char value) const {
        if (m.value < value) {
            m.value = value;
            m.owner = static_cast<unsigned char>(owner);
            return {value, true};
        }
        return {m.value, m.value == value && (m.owner == owner || r.any_owner)};
    }

    // -- the steps ----------------------------------------------------------------------------------------

    template <class F>
    void runs(const World& w, int c, int i, F emit) const {
        const Owner& o = w.owner[c];
        if (o.phase == IDLE) return;
        const auto answered = [&](World next, const char* kind, const char* unheard, Answer answer) {
            if (r.late) emit(next, {unheard, c, i});  // the reply is lost
            next.owner[c].answer[i] = answer;
            emit(next, {kind, c, i});
        };
        if (!(o.acquired >> i & 1)) {
            World next = w;
            next.owner[c].acquired |= 1 << i;
            if (o.phase == ACQUIRING) {
                const unsigned char value = acquire(next.master[i], c, o.value);
                answered(next, "granted", "granted-unheard", {value, false});
            } else if (r.late) {
                for (const int proposal : {0, r.ahead}) {
                    World late = next;
                    acquire(late.master[i], c, proposal);
                    emit(late, {"late-acquire", c, i});
                    if (r.ahead == 0) break;
                }
            }
        }
        if (o.phase != ACQUIRING && !(o.stored >> i & 1)) {
            World next = w;
            next.owner[c].stored |= 1 << i;
            const Answer answer = store(next.master[i], c, o.value);
            if (o.phase != DONE && o.phase != FAILED) answered(next, answer.yes ? "stored" : "refused", "store-unheard", answer);
            else if (r.late) emit(next, {"late-store", c, i});
        }
        if (r.late && o.before > 0) {
            World next = w;
            store(next.master[i], c, o.before);
            emit(next, {"late-store", c, i});
        }
    }

    template <class F>
    void begins(const World& w, int c, F emit) const {
        const auto busy = [](const Owner& o) { return o.phase >= ACQUIRING && o.phase <= STORING_AGAIN; };
        if (r.in_turn && std::any_of(w.owner.begin(), w.owner.end(), busy)) return;
        World next = w;
        Owner& o = next.owner[c];
        o.phase = ACQUIRING;
        for (const Owner& other : w.owner)
            if (other.phase == DONE) o.floor = std::max(o.floor, other.value);
        emit(next, {"begins", c});
        o.value = static_cast<unsigned char>(r.ahead);
        if (r.ahead > 0 && !r.incr_max) emit(next, {"begins-ahead", c});
    }

    static void end(Owner& o, Phase phase) {
        if (o.phase == ACQUIRING) o.stored = 7;  // nothing was sent that could come late
        o.phase = phase;
        o.floor = 0;
        o.answer = {};
    }

    template <class F>
    void has_token(const World& w, int c, int token, F emit) const {
        World next = w;
        Owner& o = next.owner[c];
        unsigned event = o.phase == ACQUIRING ? ONE_ROUND : WROTE_BACK;
        if (token <= o.floor) event |= VIOLATION;
        for (const Owner& other : w.owner)
            if (other.phase == DONE && other.value == token) event |= VIOLATION;
        end(o, DONE);
        o.value = static_cast<unsigned char>(token);
        const auto done = [](const Owner& each) { return each.phase == DONE; };
        if (std::all_of(next.owner.begin(), next.owner.end(), done)) event |= ALL_DONE;
        emit(next, {event & WROTE_BACK ? "token-back" : "token", c, -1, event});
    }

    template <class F>
    void decides(const World& w, int c, F emit) const {
        const Owner& o = w.owner[c];
        if (o.phase == IDLE) return begins(w, c, emit);
        if (o.phase == DONE || o.phase == FAILED) return;
        World next = w;
        end(next.owner[c], FAILED);
        if (o.phase == ACQUIRING) next.owner[c].value = 0;
        if (r.give_up) emit(next, {"gives-up", c});
        int heard = 0, yes = 0, greatest = 0;
        for (const Answer& answer : o.answer) {
            heard += answer.value > 0;
            yes += answer.yes;
            greatest = std::max<int>(greatest, answer.value);
        }
        if (heard < quorum) return;
        if (o.phase == ACQUIRING) {
            if (r.incr_max) return has_token(w, c, greatest, emit);
            for (const Answer& one : o.answer) {
                const auto same = [&](const Answer& other) { return one.value > 0 && other.value == one.value; };
                if (std::count_if(o.answer.begin(), o.answer.end(), same) >= quorum)
                    return has_token(w, c, one.value, emit);
            }
            return writes_back(w, c, greatest, emit);
        }
        if (yes >= quorum) return has_token(w, c, o.value, emit);
        if (o.phase == STORING && r.rounds > 1) writes_back(w, c, greatest + 1, emit);
    }

    template <class F>
    void writes_back(const World& w, int c, int value, F emit) const {
        World next = w;
        Owner& o = next.owner[c];
        if (value > most) return emit(next, Step{"too-great", c, -1, TOO_GREAT});
        o.before = o.phase == ACQUIRING ? 0 : o.value;
        o.phase = o.phase == ACQUIRING ? STORING : STORING_AGAIN;
        o.value = static_cast<unsigned char>(value);
        o.stored = 0;
        o.answer = {};
        emit(next, {"writes-back", c});
    }

    template <class F>
    void each(const World& w, F take) const {
        const auto emit = [&](const World& next, const Step& step) {
            const auto fits = [](const Master& m) { return m.value <= most; };
            const bool all = std::all_of(next.master.begin(), next.master.end(), fits);
            // Left out in silence, a value beyond four bits would make the search incomplete.
            if (all) take(next, step);
            else take(w, Step{"too-great", step.client, step.master, TOO_GREAT});
        };
        for (int c = 0; c < owners; ++c) {
            decides(w, c, emit);
            for (int i = 0; i < masters; ++i) runs(w, c, i, emit);
        }
    }

    template <class F>
    void each(Key key, F take) const {
        each(unpacked(key), [&](const World& next, const Step& step) { take(canonical(next), step.event); });
    }
};

int main(int argc, char** argv) {
    Rules r;
    std::string until = "violation";
    unsigned long long limit = 200'000'000;
    const std::map<std::string, int*> numbers = {
        {"incr_max", &r.incr_max}, {"any_owner", &r.any_owner}, {"ahead", &r.ahead}, {"rounds", &r.rounds},
        {"in_turn", &r.in_turn}, {"late", &r.late}, {"give_up", &r.give_up},
    };
    const std::map<std::string, unsigned> events = {
        {"violation", VIOLATION | TOO_GREAT}, {"one-round", ONE_ROUND}, {"wrote-back", WROTE_BACK}, {"too-great", TOO_GREAT},
        {"all-done", ALL_DONE}, {"nothing", 0},
    };
    return command_line(argc, argv, numbers, events, limit, until) && r.ahead <= most && r.rounds <= 2
               ? report(Fence{r}, events.at(until), limit, [](const Fence::World& w) {
                     for (const Master& m : w.master) std::printf(" %d", m.value);
                     for (const Owner& o : w.owner) std::printf(" %d", o.value);
                 })
               : 2;
}
