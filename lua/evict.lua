-- evict: an operator takes the lock away from whoever holds it, and wakes those who wait.
--
-- KEYS[1] lock      hash
-- ARGV[1] channel   text   where to publish
-- ARGV[2] message   text   what to publish
--
-- Reply: {code, holder, count, ttl_ms}
--    1  evicted; holder, count and ttl_ms are what the evicted one had
--    0  absent: nobody held it here
--   -2  the key is not a lock; it was left alone
--
-- Second delivery: finds nobody, or evicts whoever came in between; an operator repeats it knowingly.
-- Called by: rlock/procedures/inspect.py

local lock, channel, message = KEYS[1], ARGV[1], ARGV[2]

local fields = redis.pcall('hlen', lock)
if fields == 0 then
    return {0, '', 0, -2}
end
if type(fields) == 'table' and not string.find(fields.err, 'WRONGTYPE', 1, true) then
    return fields
end
if fields ~= 1 then
    return {-2, '', 0, -1}
end

local entry = redis.call('hgetall', lock)
local held = tonumber(entry[2])
if not held then
    return {-2, '', 0, -1}
end
local ttl_ms = redis.call('pttl', lock)
redis.call('del', lock)
redis.pcall('publish', channel, message)
return {1, entry[1], held, ttl_ms}
