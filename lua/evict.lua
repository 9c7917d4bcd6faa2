-- evict: an operator takes the lock away from the holder that was named, and wakes those who wait.
--
-- KEYS[1] lock      hash
-- ARGV[1] holder    text   the `<client>:<uuid>` that status showed
-- ARGV[2] channel   text   where to publish
-- ARGV[3] message   text   what to publish
--
-- Reply: {code, holder, count, ttl_ms}
--    1  evicted; count and ttl_ms are what the holder had left
--    0  absent: nobody holds it here
--   -1  someone else's; it was left alone: it came after the one the operator saw
--   -2  the key is not a lock; it was left alone
--
-- Second delivery: finds the holder gone, answers 0 or -1, writes and publishes nothing.
-- Called by: rlock/procedures/inspect.py

local lock, holder, channel, message = KEYS[1], ARGV[1], ARGV[2], ARGV[3]

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
local held, ttl_ms = tonumber(entry[2]), redis.call('pttl', lock)
if not held then
    return {-2, '', 0, -1}
end
if entry[1] ~= holder then
    return {-1, entry[1], held, ttl_ms}
end
redis.call('del', lock)
-- pcall: a PUBLISH denied by an ACL must not turn an eviction that has happened into an error.
redis.pcall('publish', channel, message)
return {1, holder, held, ttl_ms}
