-- release: give the lease up, and wake those who wait.
--
-- KEYS[1] lock      hash
-- ARGV[1] owner     text   `<client>:<uuid>`
-- ARGV[2] channel   text   where to publish; empty: do not (an attempt that failed wakes nobody)
-- ARGV[3] message   text   what to publish
--
-- Reply: {code, holder, count, ttl_ms}
--    1  released; count is the number of subscribers reached, -1 if PUBLISH was denied
--    0  absent: nobody holds it here
--   -1  someone else's; holder, count and ttl_ms are theirs
--   -2  the key is not a lock (another type, or a hash that no lock wrote)
--
-- Second delivery: finds the owner gone, answers 0 or -1, writes and publishes nothing.
-- Called by: rlock/procedures/release.py, and by acquire.py to undo an attempt

local lock, owner, channel, message = KEYS[1], ARGV[1], ARGV[2], ARGV[3]

local held = redis.pcall('hget', lock, owner)
if type(held) == 'string' then
    redis.call('del', lock)
    local receivers = 0
    if channel ~= '' then
        -- pcall: a PUBLISH denied by an ACL must not turn a release that has happened into an error.
        receivers = redis.pcall('publish', channel, message)
        if type(receivers) == 'table' then
            receivers = -1
        end
    end
    return {1, owner, receivers, 0}
end
if type(held) == 'table' then
    if string.find(held.err, 'WRONGTYPE', 1, true) then
        return {-2, '', 0, -1}
    end
    return held
end

local fields = redis.call('hlen', lock)
if fields == 0 then
    return {0, '', 0, -2}
end
-- Before HGETALL: a hash of somebody's that has a million fields would stop the server for its reply.
local entry = fields == 1 and redis.call('hgetall', lock)
if not entry or not tonumber(entry[2]) then
    return {-2, '', 0, -1}
end
return {-1, entry[1], tonumber(entry[2]), redis.call('pttl', lock)}
