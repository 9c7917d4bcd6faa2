// What a state of the lock's model consists of, and how it is packed into one number.
//
// All instants are kept relative to now, so that endless time has finitely many states. The masters are alike,
// and so are the clients, unless they have leases of their own: states that differ only in their names are one.

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>

#ifndef MASTERS
#define MASTERS 3
#endif
#ifndef CLIENTS
#define CLIENTS 2
#endif

constexpr int masters = MASTERS, clients = CLIENTS;

struct Rules {
    int T = 3, T2 = 0;             // lease, of the second client too unless T2 says otherwise
    int D = 1, D2 = -1;            // an acquisition takes no longer
    int guard = 3, guard2 = -1;    // by its own max_ttl a client counts no vote of a younger memory
    int quorum = masters / 2 + 1;
    int heal = 1;                  // a renewal writes where the key is missing
    int handon = 1;                // a release may hand the lease to a successor of the same client

    int durable = 0;  // so many masters keep their memory in a restart, unless their disk is lost
    int flush = 1;    // FLUSHALL at any time
    int older = 0;    // a master that is not durable may come back with an older memory
    int replica = 1;  // (older) it may be the memory of a promoted replica
    int evict = 0;    // the note alone may vanish
    int prompt = 1;   // a hello comes at once after each loss; 0: at any time
    int losses = 99;  // so many masters lose their memory, at any times; 99: any number
    int late = 1;     // commands outlive a restart, and run in any order; 0: as on one connection
    int keep = 0;     // keys and commands of attempts that are over stay; 0: dropped at once
    int plain = 0;    // replies travel, rounds start without an answer; 0: only what can matter (docs/model.md)

    // The restart guard with one of its conditions left out.
    int handshake = 1;     // a hello is the first script on each connection
    int look = 1;          // a grant reads the note in the same call; 0: the hello of long ago counts
    int none_is_old = 0;   // a grant without a note counts
    int leaves = 0;        // hello leaves the note of another run_id alone on any master
    int trusts_start = 0;  // hello without a note takes the start of the server, flushed or not
    int saw_none = 0;      // first use is decided by what a client saw before, and its hello comes late
    int durable_old = 0;   // a durable master without a note is old
    int believes = 0;      // a note that was written anew is judged by the client's older belief
    int rejudge = 1;       // a round that learns of a longer lease judges the votes that it has again
    int hears_all = 0;     // a client decides only when it has read the notes of all masters

    // The rules of leases and renewal.
    int quickly = 1;      // the limit D is kept
    int by_votes = 0;     // the votes come within D, the decision may come later
    int naive = 0;        // what was healed, and what is young, counts for the holder at once
    int young_yes = 0;    // a young master that still had the key counts at once
    int equal_too = 0;    // now + D <= v is enough
    int greatest_d = 0;   // a holder goes by the longest D of any client, not by its own
    int on_answer = 0;    // now + D < v is asked when the answer comes, not when the round is decided
    int from_end = 0;     // validity is counted from the end of the round
    int unchecked = 0;    // a release deletes whatever there is
    int young_heir = 0;   // a successor counts young masters
    int revive = 0;       // a renewal counts although its majority is complete only after the old validity

    int lease(int client) const { return client == 1 && T2 > 0 ? T2 : T; }
    int limit(int client) const { return client == 1 && D2 >= 0 ? D2 : D; }
    int own_guard(int client) const { return client == 1 && guard2 >= 0 ? guard2 : guard; }
    bool alike() const { return lease(1) == T && limit(1) == D && own_guard(1) == guard; }
    int longest() const { return std::max(T, T2); }
    int oldest() const { return std::max(guard, guard2); }  // ages are counted up to here
    bool start_matters() const { return believes || !look || trusts_start || saw_none; }
};

// What has come of a client's command on one master, in its present round.
enum Vote : unsigned char {
    PENDING,  // has not run
    GONE,     // no reply will come, or one that can never count
    HEALED,   // written where there was no key, or yes of a master without a note
    YES,      // YES + n: the note that the command read is n ticks old by now
};

enum Phase : unsigned char { IDLE, ACQUIRING, SUCCEEDING, HOLDING };

enum Note : unsigned char { NONE, FOREIGN, OWN };  // FOREIGN: with the run_id of an earlier life

constexpr unsigned char OVER = clients, FREE = clients + 1;  // owners; OVER: of an attempt that is over

struct Master {
    unsigned char owner = FREE;
    unsigned char left = 0;     // of the lease
    Note note = NONE;
    unsigned char age = 0;      // since the note's `since`, counted up to the guard
    bool longer = false;        // the note's max_ttl is the longer one of two
    unsigned char start = 0;    // since the server started, counted up to the guard
    bool tainted = false;       // it was flushed in this life, or was a replica
    bool durable = false;
    std::array<Vote, clients> vote{};
    std::array<bool, clients> sent{};  // (plain) the reply is still on its way
    // (plain) An earlier round's command may still come here; (unchecked) an earlier attempt's release may.
    std::array<bool, clients> earlier{};
};

struct Client {
    Phase phase = IDLE;
    unsigned char left = 0;    // of the validity, when HOLDING
    unsigned char since = 0;   // the round began
    bool interrupted = false;  // its validity ended, and another one held the lock (only with `revive`)
    bool heard = false;        // of the longer max_ttl
    unsigned char read = 0;    // (hears_all) the masters whose notes it has read in this round
};

struct World {
    std::array<Master, masters> master;
    std::array<Client, clients> client;
    unsigned char losses = 0;  // that may still come
};

class Packing {
    const Rules r;
    const bool alike = r.alike(), two = r.guard2 >= 0;
    const int lease_bits = width(owners(r) * r.longest()), left_bits = width(r.longest());
    const int age_bits = width(r.oldest()), vote_bits = width(YES + r.oldest());
    const int master_bits = lease_bits + 2 + two + 2 * age_bits + 1 + (r.durable > 0) +
                            clients * (vote_bits + r.plain + has_earlier());
    const int client_bits = 2 + 2 * left_bits + (r.revive != 0) + two + (r.hears_all ? masters : 0);
    using Names = std::array<int, clients>;

    static int width(int most) { return most ? 1 + width(most / 2) : 0; }
    static int owners(const Rules& r) { return r.keep || r.unchecked ? clients + 1 : clients; }
    bool has_earlier() const { return r.plain || r.unchecked; }

    // One list of fields, to write and to read: f(field, bits).
    template <class M, class F>
    void master_fields(M& m, F f) const {
        f(m.note, 2), f(m.age, age_bits), f(m.longer, two), f(m.start, age_bits), f(m.tainted, 1);
        f(m.durable, r.durable > 0);
        for (int c = 0; c < clients; ++c) f(m.vote[c], vote_bits), f(m.sent[c], r.plain), f(m.earlier[c], has_earlier());
    }
    template <class C, class F>
    void client_fields(C& c, F f) const {
        f(c.phase, 2), f(c.left, left_bits), f(c.since, left_bits), f(c.interrupted, r.revive != 0), f(c.heard, two);
        f(c.read, r.hears_all ? masters : 0);
    }
    int losses_bits() const { return r.losses == 99 ? 0 : width(r.losses); }

public:
    __extension__ using Key = unsigned __int128;

    explicit Packing(const Rules& rules) : r(rules) {}

    bool fits() const {
        const bool one_meaning = !(r.plain && r.unchecked);  // of Master::earlier
        const bool one_name = !r.hears_all || !alike;        // Client::read names masters
        return one_meaning && one_name && master_bits <= 64 && r.oldest() <= 15 && r.D <= r.longest() &&
               r.D2 <= r.longest() && masters * master_bits + clients * client_bits + losses_bits() <= 128;
    }

    // The same for all states that differ only in names.
    Key canonical(const World& w) const {
        Names names;
        std::iota(names.begin(), names.end(), 0);
        Key least = packed(w, names);
        while (alike && std::next_permutation(names.begin(), names.end())) least = std::min(least, packed(w, names));
        return least;
    }

    World unpacked(Key key) const {
        const auto bits = [&key](int width) {
            const unsigned value = static_cast<unsigned>(key) & ((1u << width) - 1);
            key >>= width;
            return value;
        };
        const auto take = [&](auto& field, int width) { field = static_cast<std::decay_t<decltype(field)>>(bits(width)); };
        World w;
        for (Master& m : w.master) {
            if (const int lease = bits(lease_bits)) {
                m.owner = static_cast<unsigned char>((lease - 1) / r.longest());
                m.left = static_cast<unsigned char>((lease - 1) % r.longest() + 1);
            }
            master_fields(m, take);
        }
        for (Client& c : w.client) client_fields(c, take);
        take(w.losses, losses_bits());
        return w;
    }

private:
    // names[i] is the client that is to be called i.
    Key packed(const World& w, const Names& names) const {
        std::array<std::uint64_t, masters> words;
        std::array<int, masters> order;
        for (int i = 0; i < masters; ++i) words[i] = word(w.master[i], names);
        std::iota(order.begin(), order.end(), 0);
        std::sort(order.begin(), order.end(), [&](int a, int b) { return words[a] < words[b]; });
        Key key = 0;
        int at = 0;
        const auto put = [&](unsigned value, int width) { key |= width ? Key(value) << at : 0, at += width; };
        for (const int i : order) key |= Key(words[i]) << at, at += master_bits;
        for (const int name : names) {
            Client c = w.client[name];
            c.read = 0;
            for (int i = 0; i < masters; ++i) c.read |= (w.client[name].read >> order[i] & 1) << i;
            client_fields(c, put);
        }
        put(w.losses, losses_bits());
        return key;
    }

    std::uint64_t word(const Master& m, const Names& names) const {
        Master n = m;
        for (int i = 0; i < clients; ++i) {
            if (names[i] == m.owner) n.owner = static_cast<unsigned char>(i);
            n.vote[i] = m.vote[names[i]], n.sent[i] = m.sent[names[i]], n.earlier[i] = m.earlier[names[i]];
        }
        std::uint64_t word = n.owner == FREE ? 0 : 1 + n.owner * r.longest() + n.left - 1;
        int at = lease_bits;
        master_fields(n, [&](unsigned value, int width) { word |= width ? std::uint64_t(value) << at : 0, at += width; });
        return word;
    }
};
