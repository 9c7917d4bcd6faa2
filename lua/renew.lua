-- renew: prolong the leases of many locks of one process, and store their hold counts. Or put the keys of a
-- holder back on a master that lost them, or never had them: with three keys and three words for each lock.
-- Or keep the lease of one hold that ends: with the count 0, and without its place in the queue.
--
-- KEYS[i]    lock      hash
-- KEYS[3i-2] lock      hash   to put it back
-- KEYS[3i-1] fence     text   `<token> <owner>`, the last fencing token and its owner
-- KEYS[3i]   evicted   text   exists while an evicted owner must not be healed
-- KEYS[n]    note      text   as in acquire.lua
-- KEYS[#KEYS] queue    zset   with a waiter only
-- ARGV[1]    lease_ms  ms
-- ARGV[2i]   owner     text   `<client>:<uuid>`
-- ARGV[2i+1] count     holds
-- ARGV[2]    fence_ms  ms     to put locks back: how long the last fencing token is kept, as in acquire.lua
-- ARGV[3i]   owner     text
-- ARGV[3i+1] count     holds
-- ARGV[3i+2] token     us     the holder's fencing token
-- ARGV[n]    waiter    text   `<owner>|<client_id>`, the place to leave; left out for a hold that goes on
--
-- Reply: {owner, codes, note}: the first owner, as an echo, and one code for each lock in the order of KEYS
--    2  healed: it was absent, and is the owner's again for lease_ms from now
--    1  renewed: the lease runs lease_ms from now; the note has it, if it is longer than all before
--    0  absent: nobody holds it here; or the server refused a write, or to read whether the owner was evicted
--   -1  someone else's, or not a lock, or the owner was evicted
--
-- Second delivery: sets the same count and expiry again, from its own arrival; released locks stay free. One
-- that puts locks back would bring them back: its sender sends it once, with its text.

local lease_ms = ARGV[1]
local fence_ms = tonumber(ARGV[2]) -- an owner is no number
local locks = math.floor(fence_ms and (#ARGV - 2) / 3 or (#ARGV - 1) / 2)
local waiter = not fence_ms and #ARGV % 2 == 0 and ARGV[#ARGV]
local queue = waiter and KEYS[#KEYS]
local note_key = KEYS[(fence_ms and 3 or 1) * locks + 1]
note_key = note_key ~= queue and note_key
local codes, changed = {}, false

if lease_ms + 0 > 86400000 then
    return {err = 'ERR lease_ms=' .. lease_ms .. ' is over a day'}
end
if waiter then
    redis.pcall('zrem', queue, waiter)
end
for i = 1, locks do
    local lock, owner, count, fence, evicted, token = KEYS[i], ARGV[2 * i], ARGV[2 * i + 1]
    if fence_ms then
        lock, fence, evicted = KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i]
        owner, count, token = ARGV[3 * i], ARGV[3 * i + 1], ARGV[3 * i + 2]
    end
    local held = redis.pcall('hget', lock, owner)
    local banned = evicted and redis.pcall('get', evicted)
    if type(held) == 'string' then
        if held ~= count then
            -- HSET is refused under maxmemory; the lease must still be prolonged, the count is for people.
            redis.pcall('hset', lock, owner, count)
        end
        redis.call('pexpire', lock, lease_ms)
        codes[i], changed = 1, true
    elseif held and not string.find(held.err, 'WRONGTYPE', 1, true) then
        return held
    elseif held or redis.call('exists', lock) == 1 or type(banned) == 'string' then
        codes[i] = -1
    elseif not evicted or type(banned) == 'table' then
        codes[i] = 0
    elseif type(redis.pcall('hset', lock, owner, count)) == 'table' then
        codes[i] = 0
    elseif type(redis.pcall('pexpire', lock, lease_ms)) == 'table' then
        -- Not allowed: a lock without an expiry would stay for ever.
        redis.pcall('del', lock)
        redis.pcall('hdel', lock, owner)
        codes[i] = 0
    else
        codes[i], changed = 2, true
        -- The holder's token was lost with the key: the next one must be above it. A token of another type stays.
        local last = redis.pcall('get', fence)
        local given = type(last) ~= 'table' and tonumber(string.match(last or '', '^(%d+) ') or 0)
        if given and (given < tonumber(token) or given > 9e15) then
            local time, kept_ms = redis.pcall('time'), ARGV[2]
            local now_us = time.err and math.huge or time[1] * 1000000 + time[2]
            if tonumber(token) > now_us then
                kept_ms = string.format('%.0f', fence_ms + (token - now_us) / 1000)
            end
            redis.pcall('set', fence, token .. ' ' .. owner, 'px', kept_ms)
        end
    end
end
local note = note_key and redis.pcall('get', note_key) or ''
note = note.err and (string.find(note.err, 'WRONGTYPE', 1, true) and '' or error(note.err)) or note
if changed and string.sub(note, -1 - #lease_ms) ~= ' ' .. lease_ms then
    -- Otherwise a client with a shorter max_ttl would not learn of this lease. It would count the vote of a
    -- master that forgot the lease in a restart too early: while the lease is valid on the others.
    local known, longest = string.match(note, '^(%S* %d+) (%d+)$')
    if known and longest + 0 < lease_ms + 0 then
        -- pcall: a server at maxmemory refuses it, and the lease must still be prolonged.
        local longer = known .. ' ' .. lease_ms
        note = redis.pcall('set', note_key, longer).ok and longer or note
    end
end
return {ARGV[fence_ms and 3 or 2], codes, note}
