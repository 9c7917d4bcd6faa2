-- renew: prolong the leases of many locks of one process, and store their hold counts. Or keep the lease of
-- one hold that ends: with the count 0, and without its place in the queue.
--
-- KEYS[i]    lock      hash
-- KEYS[n]    note      text   as in acquire.lua
-- KEYS[#KEYS] queue    zset   with a waiter only
-- ARGV[1]    lease_ms  ms
-- ARGV[2i]   owner     text   `<client>:<uuid>`
-- ARGV[2i+1] count     holds
-- ARGV[n]    waiter    text   `<token>|<client_id>`, the place to leave; left out for a hold that goes on
--
-- Reply: {owner, codes, note}: the first owner, as an echo, and one code for each lock in the order of KEYS
--    1  renewed: the lease runs lease_ms from now; the note has it, if it is longer than all before
--    0  absent: nobody holds it here
--   -1  someone else's, or not a lock
--
-- Second delivery: sets the same count and expiry again, from its own arrival; released locks stay free.

local lease_ms = ARGV[1]
local locks = math.floor((#ARGV - 1) / 2)
local waiter = #ARGV % 2 == 0 and ARGV[#ARGV]
local queue = waiter and KEYS[#KEYS]
local note_key = KEYS[locks + 1] ~= queue and KEYS[locks + 1]
local codes, renewed = {}, false

if lease_ms + 0 > 86400000 then
    return {err = 'ERR lease_ms=' .. lease_ms .. ' is over a day'}
end
if waiter then
    redis.pcall('zrem', queue, waiter)
end
for i = 1, locks do
    local lock, owner, count = KEYS[i], ARGV[2 * i], ARGV[2 * i + 1]
    local held = redis.pcall('hget', lock, owner)
    if type(held) == 'string' then
        if held ~= count then
            -- HSET is refused under maxmemory; the lease must still be prolonged, the count is for people.
            redis.pcall('hset', lock, owner, count)
        end
        redis.call('pexpire', lock, lease_ms)
        codes[i], renewed = 1, true
    elseif held == false and redis.call('exists', lock) == 0 then
        codes[i] = 0
    elseif held == false or string.find(held.err, 'WRONGTYPE', 1, true) then
        codes[i] = -1
    else
        return held
    end
end
local note = note_key and redis.pcall('get', note_key) or ''
note = note.err and (string.find(note.err, 'WRONGTYPE', 1, true) and '' or error(note.err)) or note
if renewed and string.sub(note, -1 - #lease_ms) ~= ' ' .. lease_ms then
    -- Otherwise a client with a shorter max_ttl would not learn of this lease. It would count the vote of a
    -- master that forgot the lease in a restart too early: while the lease is valid on the others.
    local known, longest = string.match(note, '^(%S* %d+) (%d+)$')
    if known and longest + 0 < lease_ms + 0 then
        -- pcall: a server at maxmemory refuses it, and the lease must still be prolonged.
        local longer = known .. ' ' .. lease_ms
        note = redis.pcall('set', note_key, longer).ok and longer or note
    end
end
return {ARGV[2], codes, note}
