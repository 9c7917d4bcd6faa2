-- wait: keep places in the queue, and read who holds the lock on this master.
--
-- KEYS[1] lock      hash
-- KEYS[2] queue     zset   waiters by ticket
-- KEYS[3] readers   zset   as in acquire.lua; left out unless a reader is among the waiters
-- ARGV[1]    queue_ms  ms     how long the queue is kept after its last visitor
-- ARGV[2i]   waiter    text   `<owner>|<client_id>`
-- ARGV[2i+1] ticket    us     its place, the same on every master
-- ARGV[n]    channel   text   the lock's; left out unless a reader is among the waiters
--
-- Reply: {code, holder, count, ttl_ms, time_us}
--    1  held; the holder may be one of the waiters, which was handed the lock and does not know it yet
--    0  absent: nobody holds it here; or readers do, and the next one may join them
--   -2  the key is not a lock
--
-- Second delivery: sets the same places again.

local lock, queue, readers, queue_ms = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
local channel = #ARGV % 2 == 0 and ARGV[#ARGV]

local fields = redis.pcall('hlen', lock)
if type(fields) == 'table' and not string.find(fields.err, 'WRONGTYPE', 1, true) then
    return fields
end
local entry = fields == 1 and redis.call('hgetall', lock)
if fields ~= 0 and not (entry and tonumber(entry[2])) then
    return {-2, '', 0, -1, 0}
end

local READERS = 'readers:00000000000000000000000000000000'
local code, holder, held, ttl_ms, joins = 0, '', 0, -2, false
if entry then
    code, holder, held, ttl_ms = 1, entry[1], tonumber(entry[2]), redis.call('pttl', lock)
end
local time = redis.call('time')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
for i = 1, math.floor((#ARGV - 1) / 2) do
    local waiter, ticket = ARGV[2 * i], ARGV[2 * i + 1]
    if code == 0 or string.sub(waiter, 1, #holder + 1) ~= holder .. '|' then
        local reads = holder == READERS and string.find(waiter, '+shared:', 1, true)
        if reads and (redis.call('zscore', readers, string.match(waiter, '^(.*)|')) or -1) + 0 >= now_ms then
            joins = true -- this reader was invited, and does not know it yet
        elseif
            -- pcall: a server at maxmemory refuses the place. Its waiter goes on polling, and finds the lock free.
            type(redis.pcall('zadd', queue, ticket, waiter)) ~= 'table'
            and type(redis.pcall('pexpire', queue, queue_ms)) == 'table'
        then
            redis.pcall('zrem', queue, waiter)
        end
    end
end
if channel and holder == READERS then
    local first = not joins and redis.pcall('zrange', queue, 0, 0)[1]
    joins = joins or first and string.find(first, '+shared:', 1, true)
    -- An exclusive waiter in front that is dead: otherwise these readers would wait until all others end.
    if first and not joins and redis.pcall('publish', channel .. (string.match(first, '|[^|]*$') or ''), '') == 0 then
        joins = redis.pcall('zrem', queue, first) == 1
    end
    if joins then
        code, holder, held, ttl_ms = 0, '', 0, -2
    end
end
return {code, holder, held, ttl_ms, time[1] * 1000000 + time[2]}
