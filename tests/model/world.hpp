// What a state of the lock's model consists of, and how it is packed into one number.
//
// All instants are kept relative to now, so that endless time has finitely many states. The masters are alike,
// and so are the clients, unless they have leases of their own: states that differ only in their names are one.

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <type_traits>

#ifndef MASTERS
#define MASTERS 3
#endif
#ifndef CLIENTS
#define CLIENTS 2
#endif

constexpr int masters = MASTERS, clients = CLIENTS;

struct Rules {
    int T = 3, T2 = 0;         // lease, of the second client too unless T2 says otherwise
    int D = 1, D2 = -1;        // an acquisition takes no longer
    int guard = 3;             // a master has no vote until it is so old
    int quorum = masters / 2 + 1;
    int heal = 1;              // a renewal writes where the key is missing
    int handon = 1;            // a release may hand the lease to a successor of the same client

    int late = 1;    // commands outlive a restart, and run in any order; 0: as on one connection
    int keep = 0;    // keys and commands of attempts that are over stay; 0: dropped at once
    int plain = 0;   // replies travel, rounds start without an answer; 0: only what can matter (docs/model.md)

    int quickly = 1;      // the limit D is kept
    int by_votes = 0;     // the votes come within D, the decision may come later
    int naive = 0;        // what was healed, and what is young, counts for the holder at once
    int young_yes = 0;    // a young master that still had the key counts at once
    int equal_too = 0;    // now + D <= v is enough
    int on_answer = 0;    // now + D < v is asked when the answer comes, not when the round is decided
    int from_end = 0;     // validity is counted from the end of the round
    int unchecked = 0;    // a release deletes whatever there is
    int young_heir = 0;   // a successor counts young masters
    int revive = 0;       // a renewal counts although its majority is complete only after the old validity

    int lease(int client) const { return client == 1 && T2 > 0 ? T2 : T; }
    int limit(int client) const { return client == 1 && D2 >= 0 ? D2 : D; }
    bool alike() const { return lease(1) == T && limit(1) == D; }
    int longest() const { return std::max(T, T2); }
};

// What has come of a client's command on one master, in its present round.
enum Vote : unsigned char {
    PENDING,      // has not run
    YOUNG,        // yes of a young master; unless `plain`, a reply that may still come when it is of age
    HEALED,       // written where there was none, or yes of a life that is over
    COUNTS,       // yes of a master of age
    GONE,         // no reply will come
    SENT_YES,     // (plain) yes, on its way
    SENT_HEALED,  // (plain) written where there was none, on its way
};

enum Phase : unsigned char { IDLE, ACQUIRING, SUCCEEDING, HOLDING };

constexpr unsigned char OVER = clients, FREE = clients + 1;  // owners; OVER: of an attempt that is over

struct Master {
    unsigned char owner = FREE;
    unsigned char left = 0;  // of the lease
    unsigned char age = 0;   // counted up to the guard
    std::array<Vote, clients> vote{};
    // (plain) An earlier round's command may still come here; (unchecked) an earlier attempt's release may.
    std::array<bool, clients> earlier{};
};

struct Client {
    Phase phase = IDLE;
    unsigned char left = 0;    // of the validity, when HOLDING
    unsigned char since = 0;   // the round began
    bool interrupted = false;  // its validity ended, and another one held the lock (only with `revive`)
};

struct World {
    std::array<Master, masters> master;
    std::array<Client, clients> client;
};

class Packing {
    static constexpr int key_bits = 4, master_bits = key_bits + 3 + 4 * clients, client_bits = 8;
    static constexpr unsigned char interrupted = 7;  // instead of what is left of the validity: nothing
    static constexpr int all_bits = masters * master_bits + clients * client_bits;
    static_assert(all_bits <= 128);
    __extension__ using Wide = unsigned __int128;

    const int T;
    const bool alike;
    using Names = std::array<int, clients>;

public:
    using Key = std::conditional_t<(all_bits <= 64), std::uint64_t, Wide>;

    explicit Packing(const Rules& r) : T(r.longest()), alike(r.alike()) {}

    // The owners, each with up to T of its lease left, and "free" have to fit into the bits of a key.
    static bool fits(const Rules& r) {
        const int owners = r.keep || r.unchecked ? clients + 1 : clients;
        const bool one_meaning = !(r.plain && r.unchecked);  // of Master::earlier
        return one_meaning && owners * r.longest() < 1 << key_bits && r.guard <= 7 &&
               r.longest() < interrupted && r.D <= r.longest() && r.D2 <= r.longest();
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
        const auto take = [&key](int bits) {
            const unsigned value = static_cast<unsigned>(key) & ((1u << bits) - 1);
            key >>= bits;
            return static_cast<unsigned char>(value);
        };
        World w;
        for (Master& m : w.master) {
            const int lease = take(key_bits);
            m.owner = static_cast<unsigned char>(lease ? (lease - 1) / T : FREE);
            m.left = static_cast<unsigned char>(lease ? (lease - 1) % T + 1 : 0);
            m.age = take(3);
            for (Vote& vote : m.vote) vote = Vote(take(3));
            for (bool& earlier : m.earlier) earlier = take(1);
        }
        for (Client& c : w.client) {
            c.phase = Phase(take(2));
            c.left = take(3);
            c.interrupted = c.left == interrupted;
            if (c.interrupted) c.left = 0;
            c.since = take(3);
        }
        return w;
    }

private:
    // names[i] is the client that is to be called i.
    Key packed(const World& w, const Names& names) const {
        std::array<std::uint32_t, masters> words;
        for (int i = 0; i < masters; ++i) words[i] = word(w.master[i], names);
        std::sort(words.begin(), words.end());
        Key key = 0;
        int at = 0;
        for (const std::uint32_t one : words) key |= Key(one) << at, at += master_bits;
        for (const int name : names) key |= Key(word(w.client[name])) << at, at += client_bits;
        return key;
    }

    std::uint32_t word(const Master& m, const Names& names) const {
        unsigned owner = m.owner;
        for (int i = 0; i < clients; ++i)
            if (names[i] == m.owner) owner = i;
        std::uint32_t word = (m.owner == FREE ? 0 : 1 + owner * T + m.left - 1) | m.age << key_bits;
        int at = key_bits + 3;
        for (const int name : names) word |= m.vote[name] << at, at += 3;
        for (const int name : names) word |= m.earlier[name] << at++;
        return word;
    }
    static std::uint32_t word(const Client& c) {
        return c.phase | (c.interrupted ? interrupted : c.left) << 2 | c.since << 5;
    }
};
