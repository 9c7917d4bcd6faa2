-- acquire: grant the lease on this master if nobody has it.
--
-- KEYS[1] lock      hash
-- ARGV[1] owner     text   `<client>:<uuid>`
-- ARGV[2] lease_ms  ms
-- ARGV[3] count     holds
--
-- Reply: {code, holder, count, ttl_ms}
--    1  granted: the caller holds the lease
--   -1  refused: someone else's; holder, count and ttl_ms (-1: no expiry) are theirs
--   -2  refused: the key is not a lock (another type, or a hash that no lock wrote)
--
-- Second delivery: answers 1 and writes nothing, so it can neither count twice nor prolong the lease.
-- Called by: rlock/procedures/acquire.py

local lock, owner, lease_ms, count = KEYS[1], ARGV[1], ARGV[2], ARGV[3]

local fields = redis.pcall('hlen', lock)
if fields == 0 then
    redis.call('hset', lock, owner, count)
    local expiry = redis.pcall('pexpire', lock, lease_ms)
    if type(expiry) == 'table' then
        -- PEXPIRE denied (an ACL): without this the key would stay for ever, there is no rollback.
        redis.pcall('del', lock)
        redis.pcall('hdel', lock, owner)
        return expiry
    end
    return {1, owner, tonumber(count), tonumber(lease_ms)}
end
if type(fields) == 'table' and not string.find(fields.err, 'WRONGTYPE', 1, true) then
    return fields
end
if fields ~= 1 then
    return {-2, '', 0, -1}
end

local entry = redis.call('hgetall', lock)
local holder, held = entry[1], tonumber(entry[2])
if not held then
    return {-2, '', 0, -1}
end
if holder == owner then
    return {1, owner, held, redis.call('pttl', lock)}
end
return {-1, holder, held, redis.call('pttl', lock)}
