-- wait: keep places in the queue, and read who holds the lock on this master.
--
-- KEYS[1] lock      hash
-- KEYS[2] queue     zset   waiters by ticket
-- ARGV[1]    queue_ms  ms     how long the queue is kept after its last visitor
-- ARGV[2i]   waiter    text   `<token>|<client_id>`
-- ARGV[2i+1] ticket    us     its place, the same on every master
--
-- Reply: {code, holder, count, ttl_ms, time_us}
--    1  held; the holder may be one of the waiters, which was handed the lock and does not know it yet
--    0  absent: nobody holds it here
--   -2  the key is not a lock
--
-- Second delivery: sets the same places again.

local lock, queue, queue_ms = KEYS[1], KEYS[2], ARGV[1]

local fields = redis.pcall('hlen', lock)
if type(fields) == 'table' and not string.find(fields.err, 'WRONGTYPE', 1, true) then
    return fields
end
if fields ~= 0 and fields ~= 1 then
    return {-2, '', 0, -1, 0}
end

local code, holder, held, ttl_ms = 0, '', 0, -2
if fields == 1 then
    local entry = redis.call('hgetall', lock)
    code, holder, held, ttl_ms = 1, entry[1], tonumber(entry[2]), redis.call('pttl', lock)
    if not held then
        return {-2, '', 0, -1, 0}
    end
end
for i = 1, (#ARGV - 1) / 2 do
    local waiter, ticket = ARGV[2 * i], ARGV[2 * i + 1]
    if code == 0 or string.sub(waiter, 1, #holder + 1) ~= holder .. '|' then
        -- pcall: a server at maxmemory refuses the place. Its waiter looks on, and finds the lock free.
        if type(redis.pcall('zadd', queue, ticket, waiter)) ~= 'table' then
            if type(redis.pcall('pexpire', queue, queue_ms)) == 'table' then
                redis.pcall('zrem', queue, waiter)
            end
        end
    end
end
local time = redis.call('time')
return {code, holder, held, ttl_ms, time[1] * 1000000 + time[2]}
