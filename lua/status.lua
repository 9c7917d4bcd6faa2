-- status: who holds the lock on this master, and for how long. Writes nothing.
--
-- KEYS[1] lock      hash
--
-- Reply: {code, holder, count, ttl_ms}
--    1  held; ttl_ms is what is left of the lease (-1: no expiry)
--    0  absent: nobody holds it here
--   -2  the key is not a lock
--
-- Second delivery: reads again.
-- Called by: rlock/procedures/inspect.py

local lock = KEYS[1]

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
return {1, entry[1], held, redis.call('pttl', lock)}
