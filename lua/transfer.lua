-- transfer: put another owner token in the place of the present one, to detach, adopt, or give back a handle.
--
-- KEYS[1] lock      hash
-- KEYS[2] fence     text   as in acquire.lua
-- KEYS[3] note      text   as in acquire.lua
-- ARGV[1] count     holds
-- ARGV[2] mark      us     no greater token was given before the detach; empty: it does not matter
-- ARGV[3] present   text   `<client>:<uuid>`, the owner token that must stand here
-- ARGV[4] owner     text   `<client>:<uuid>`, the other one
--
-- Reply: {code, holder, count, ttl_ms, 0, 0, token, note, 0}, as of acquire.lua
--    1  the owner has the rest of the lease
--    0  absent: it grants nothing, because another owner may have had the lock in between
--   -1  someone else's; holder, count and ttl_ms are theirs. Or `present` has it, and a greater token came since
--       Both: token is the last one that was given here
--   -2  a hash that no lock wrote
--
-- Second delivery: finds the owner, and changes nothing.

local lock, fence, note_key = KEYS[1], KEYS[2], KEYS[3]
local count, mark, present, owner = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local fields = redis.call('hlen', lock)
local note = note_key and redis.pcall('get', note_key) or ''
note = note.err and (string.find(note.err, 'WRONGTYPE', 1, true) and '' or error(note.err)) or note
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
ttl_ms = math.max(ttl_ms, 1)
redis.call('pexpire', lock, string.format('%.0f', ttl_ms))
redis.call('hset', lock, owner, count)
if entry[1] ~= owner then
    redis.call('hdel', lock, present)
end
return {1, owner, tonumber(count), ttl_ms, 0, 0, last, note, 0}
