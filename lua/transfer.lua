-- transfer: put another owner token in the place of the present one. So a hold is detached, adopted, or given
-- back to its handle.
--
-- KEYS[1] lock      hash
-- KEYS[2] fence     text   as in acquire.lua
-- KEYS[3] queue     zset   waiters by ticket
-- KEYS[4] note      text   as in acquire.lua
-- ARGV[1] lease_ms  ms     the lease from now on; 0: the rest of the present one
-- ARGV[2] count     holds
-- ARGV[3] mark      us     no greater token was given before the detach; empty: it does not matter
-- ARGV[4] waiter    text   `<token>|<client_id>`, the place to leave; may be empty
-- ARGV[5] present   text   `<client>:<uuid>`, the owner token that must stand here
-- ARGV[6] owner     text   `<client>:<uuid>`, the other one
--
-- Reply: {code, holder, count, ttl_ms, 0, 0, token, note, 0}, as of acquire.lua
--    1  the owner has the lease
--    0  absent: it grants nothing, because another owner may have had the lock in between
--   -1  someone else's; holder, count and ttl_ms are theirs. Or `present` is the holder, and this master gave
--       a greater fencing token since
--       Both: token is the last one that was given here
--   -2  a hash that no lock wrote
--
-- Second delivery: finds the owner, and gives the same lease again, counted from its own arrival.

local lock, fence, queue, note_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local lease_ms, count, mark = ARGV[1], ARGV[2], ARGV[3]
local waiter, present, owner = ARGV[4], ARGV[5], ARGV[6]

if lease_ms + 0 > 86400000 then
    return {err = 'ERR lease_ms=' .. lease_ms .. ' is over a day'}
end
local fields = redis.call('hlen', lock)
local note = note_key and redis.pcall('get', note_key) or ''
note = note.err and (string.find(note.err, 'WRONGTYPE', 1, true) and '' or error(note.err)) or note
if waiter ~= '' then
    redis.pcall('zrem', queue, waiter)
end
if fields == 0 then
    return {0, '', 0, -2, 0, 0, 0, note, 0}
end
local entry = fields == 1 and redis.call('hgetall', lock)
if not entry or not tonumber(entry[2]) then
    return {-2, '', 0, -1, 0, 0, 0, note, 0}
end
local ttl_ms = redis.call('pttl', lock)
local last = tonumber(string.match(redis.call('get', fence) or '', '^(%d+) ') or 0)
last = last <= 9e15 and last or 0 -- as in acquire.lua
local stands = entry[1] == owner
if entry[1] == present then
    stands = mark == '' or last <= mark + 0
end
if not stands then
    return {-1, entry[1], tonumber(entry[2]), ttl_ms, 0, 0, last, note, 0}
end
-- First: a server at maxmemory lets a script store something only after another write.
ttl_ms = math.max(lease_ms == '0' and ttl_ms or lease_ms + 0, 1)
redis.call('pexpire', lock, string.format('%.0f', ttl_ms))
redis.call('hset', lock, owner, count)
if entry[1] ~= owner then
    redis.call('hdel', lock, present)
end
return {1, owner, tonumber(count), ttl_ms, 0, 0, last, note, 0}
