// A breadth-first search over all states of a model, and the shortest way to a bad one.
//
// A model gives: `Key`, `Key start()`, and `each(key, f)`, which calls f(next, event) for every state that one
// step leads to. The search ends at the first event that is asked for; it goes by the number of steps, so the
// way there is a shortest one.

#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

// Grows without ever copying: at 10^8 states a doubling vector would need three times the memory.
template <class T>
class Column {
    static constexpr unsigned bits = 20;
    std::vector<std::unique_ptr<T[]>> chunks;
    std::uint64_t count = 0;

public:
    std::uint64_t size() const { return count; }
    T operator[](std::uint64_t i) const { return chunks[i >> bits][i & ((1u << bits) - 1)]; }
    void push(T value) {
        if (count >> bits == chunks.size()) chunks.emplace_back(new T[1u << bits]);
        chunks[count >> bits][count & ((1u << bits) - 1)] = value;
        ++count;
    }
};

// The states in the order in which they were found, each with the one that it was found from; and a table
// with open addressing that holds places in that order. Whole states are compared: nothing rests on hashes.
template <class Key>
class Found {
    Column<Key> keys;
    Column<std::uint32_t> parents;
    std::vector<std::uint32_t> table;  // place + 1; 0: empty

    static std::uint64_t mixed(Key wide) {
        std::uint64_t key = static_cast<std::uint64_t>(wide);
        if constexpr (sizeof(Key) > 8) key ^= static_cast<std::uint64_t>(wide >> 64) * 0xd6e8feb86659fd93ull;
        key ^= key >> 31;
        key *= 0x9e3779b97f4a7c15ull;
        key ^= key >> 29;
        key *= 0xbf58476d1ce4e5b9ull;
        return key ^ key >> 32;
    }

    void grow() {
        std::vector<std::uint32_t>(table.size() * 2).swap(table);
        for (std::uint64_t i = 0; i < keys.size(); ++i) {
            std::uint64_t at = mixed(keys[i]) & (table.size() - 1);
            while (table[at]) at = (at + 1) & (table.size() - 1);
            table[at] = static_cast<std::uint32_t>(i + 1);
        }
    }

public:
    Found() : table(1u << 16) {}
    std::uint64_t size() const { return keys.size(); }
    Key key(std::uint64_t place) const { return keys[place]; }
    std::uint64_t parent(std::uint64_t place) const { return parents[place]; }

    void add(Key key, std::uint64_t parent) {
        std::uint64_t at = mixed(key) & (table.size() - 1);
        for (; table[at]; at = (at + 1) & (table.size() - 1))
            if (keys[table[at] - 1] == key) return;
        keys.push(key);
        parents.push(static_cast<std::uint32_t>(parent));
        table[at] = static_cast<std::uint32_t>(keys.size());
        if (keys.size() * 4 > table.size() * 3) grow();
    }
};

// One step as it is told; -1: of no client, on no master.
struct Step {
    const char* kind = nullptr;
    int client = -1, master = -1;
    unsigned event = 0;
};

enum class Verdict { never, reached, unfinished };

template <class Key>
struct Outcome {
    Verdict verdict = Verdict::never;
    std::uint64_t states = 0, steps = 0;  // steps: how deep the search went
    double seconds = 0;
    std::vector<Key> way;  // from the start to the event
};

// `wanted`: the event to look for. More than `limit` states: given up, and said so.
template <class Model, class Key = typename Model::Key>
Outcome<Key> search(const Model& model, unsigned wanted, std::uint64_t limit) {
    const auto began = std::chrono::steady_clock::now();
    Found<Key> found;
    Outcome<Key> outcome;
    found.add(model.start(), 0);
    std::uint64_t place = 0, level_ends = 1;
    std::vector<Key> back;
    for (; place < found.size() && outcome.verdict == Verdict::never; ++place) {
        if (place == level_ends) {
            ++outcome.steps;
            level_ends = found.size();
        }
        model.each(found.key(place), [&](Key next, unsigned event) {
            if (outcome.verdict != Verdict::never) return;
            if (!(event & wanted)) return found.add(next, place);
            outcome.verdict = Verdict::reached;
            back.push_back(next);
        });
        if (outcome.verdict == Verdict::reached) {
            ++outcome.steps;
            for (std::uint64_t at = place; at != 0; at = found.parent(at)) back.push_back(found.key(at));
            back.push_back(found.key(0));
        } else if (found.size() > limit) {
            outcome.verdict = Verdict::unfinished;
        }
    }
    outcome.way.assign(back.rbegin(), back.rend());
    outcome.states = found.size();
    outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    return outcome;
}

// Searches, and prints one line `result ...` and one `step KIND CLIENT MASTER ...` for each step of the way.
//
// The search knows states only up to names, so the way is gone once more, with names that stay. For that the
// model also gives: `World`, `World first()`, `each(world, f)` that calls f(next, step), `canonical(world)`.
template <class Model, class Tell>
int report(const Model& model, unsigned wanted, std::uint64_t limit, Tell tell) {
    const auto outcome = search(model, wanted, limit);
    const char* const verdicts[] = {"never", "reached", "unfinished"};
    std::printf("result verdict=%s states=%llu steps=%llu seconds=%.2f\n",
                verdicts[static_cast<int>(outcome.verdict)], static_cast<unsigned long long>(outcome.states),
                static_cast<unsigned long long>(outcome.steps), outcome.seconds);
    auto now = model.first();
    for (std::size_t i = 1; i < outcome.way.size(); ++i) {
        const bool last = i + 1 == outcome.way.size();
        bool found = false;
        auto then = now;
        model.each(now, [&](const auto& next, const Step& step) {
            if (found || model.canonical(next) != outcome.way[i] || (last && !(step.event & wanted))) return;
            found = true;
            then = next;
            std::printf("step %s %d %d", step.kind, step.client, step.master);
        });
        now = then;
        tell(now);
        std::printf("\n");
    }
    return 0;
}

// Reads `name=value` words; false, and a word on stderr, if one means nothing.
inline bool command_line(int argc, char** argv, const std::map<std::string, int*>& numbers,
                         const std::map<std::string, unsigned>& events, unsigned long long& limit,
                         std::string& until) {
    for (int i = 1; i < argc; ++i) {
        const char* const equals = std::strchr(argv[i], '=');
        const std::string name(argv[i], equals ? static_cast<std::size_t>(equals - argv[i]) : 0);
        if (name == "until" && events.count(equals + 1)) until = equals + 1;
        else if (name == "limit") limit = std::strtoull(equals + 1, nullptr, 10);
        else if (numbers.count(name)) *numbers.at(name) = std::atoi(equals + 1);
        else return std::fprintf(stderr, "not understood: %s\n", argv[i]), false;
    }
    return true;
}
