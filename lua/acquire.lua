-- acquire: grant the lease on this master if nobody has it, or if it was handed to the caller's place; else
-- give the caller a place in the queue.
--
-- KEYS[1] lock       hash
-- KEYS[2] queue      zset   waiters by ticket
-- KEYS[3] fence      text   `<token> <owner>`, the last fencing token and to whom it was given
-- KEYS[4] marker     text   what a restart without memory would lose; left out: restart guard off
-- ARGV[1] owner      text   `<client>:<uuid>`
-- ARGV[2] lease_ms   ms
-- ARGV[3] count      holds
-- ARGV[4] order      text   `fair`: a free lock is for the first in the queue; `barging`: for whoever asks
-- ARGV[5] waiter     text   `<token>|<station>`, the caller's place; empty: it does not wait
-- ARGV[6] ticket     us     its place in the queue; 0: by this master's time; empty: it takes none
-- ARGV[7] rank       text   `last`: behind all who stand here, whatever the ticket; `kept`: just there
-- ARGV[8] queue_ms   ms     how long the queue outlives its last visitor
-- ARGV[9] proposal   us     the fencing token to give, unless one as high was given; 0: this master's time
-- ARGV[10] fence_ms  ms     how long the last fencing token is remembered
--
-- Reply: {code, holder, count, ttl_ms, ticket, time_us, token, marker, length}: ticket is that of the place
-- (0: none was asked for, or none is needed), time_us this master's time, token the fencing token of a grant,
-- length that of the queue with the place
--    1  granted: the caller holds the lease, and has no place any more
--   -1  refused: someone else's; holder, count and ttl_ms (-1: no expiry) are theirs
--   -2  refused: the key is not a lock (another type, or a hash that no lock wrote)
--   -3  refused: free, and it is the turn of the waiter that holder names
--
-- Second delivery: the same count, token and lease again, counted from its own arrival; a place that is
-- there stays.
-- Called by: rlock/procedures/acquire.py

local lock, queue, fence, marker = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local owner, lease_ms, count, order = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local waiter, ticket, rank, queue_ms = ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local proposal, fence_ms = tonumber(ARGV[9]), ARGV[10]

local fields = redis.pcall('hlen', lock)
if type(fields) == 'table' and not string.find(fields.err, 'WRONGTYPE', 1, true) then
    return fields
end
local note = marker and redis.call('get', marker) or ''
if fields ~= 0 and fields ~= 1 then
    return {-2, '', 0, -1, 0, 0, 0, note, 0}
end

local function now_us()
    local time = redis.call('time')
    return time[1] * 1000000 + time[2]
end

-- Above every token that was given here: of two majorities some master is in both.
local function stamp()
    local token, given_to = string.match(redis.call('get', fence) or '', '^(%d+) (.*)$')
    if given_to ~= owner then
        token = math.max(tonumber(token or 0) + 1, proposal > 0 and proposal or now_us())
        redis.call('set', fence, string.format('%.0f ', token) .. owner, 'px', fence_ms)
    end
    return tonumber(token)
end

local holder, held = '', 0
if fields == 1 then
    local entry = redis.call('hgetall', lock)
    holder, held = entry[1], tonumber(entry[2])
    if not held then
        return {-2, '', 0, -1, 0, 0, 0, note, 0}
    end
    if holder == owner then
        -- Before the token: without memory, only a script that has written already may store one.
        redis.call('pexpire', lock, lease_ms)
        return {1, owner, held, tonumber(lease_ms), 0, 0, stamp(), note, 0}
    end
end

local handed = holder ~= '' and string.sub(waiter, 1, #holder + 1) == holder .. '|'
local first = fields == 0 and order == 'fair' and redis.call('zrange', queue, 0, 0)[1]
if handed or (fields == 0 and (not first or first == waiter)) then
    -- Before the grant: what may be refused here (memory, an ACL) must not leave a lock without a token.
    local token = stamp()
    if handed then
        redis.call('del', lock)
    end
    redis.call('hset', lock, owner, count)
    local expiry = redis.pcall('pexpire', lock, lease_ms)
    if type(expiry) == 'table' then
        -- PEXPIRE denied (an ACL): without this the key would stay for ever, there is no rollback.
        redis.pcall('del', lock)
        redis.pcall('hdel', lock, owner)
        return expiry
    end
    if waiter ~= '' then
        redis.pcall('zrem', queue, waiter)
    end
    return {1, owner, tonumber(count), tonumber(lease_ms), 0, 0, token, note, 0}
end

local code, ttl_ms = -1, 0
if fields == 0 then
    code, holder = -3, first
else
    ttl_ms = redis.call('pttl', lock)
end
if waiter == '' or ticket == '' then
    return {code, holder, held, ttl_ms, 0, 0, 0, note, 0}
end

local time_us = now_us()
local place = redis.pcall('zscore', queue, waiter)
if type(place) == 'table' then
    -- Somebody else's key, or not allowed: it waits without a place.
    return {code, holder, held, ttl_ms, 0, time_us, 0, note, 0}
end
if not place or rank == 'kept' then
    place = ticket == '0' and time_us or tonumber(ticket)
    local last = rank == 'last' and redis.call('zrange', queue, -1, -1, 'withscores')[2]
    if last and place <= tonumber(last) then
        -- First come, first served, whatever the caller's idea of the time.
        place = last + 1
    end
    -- Refused for want of memory: it waits without a place, and who holds the lock is told all the same.
    if type(redis.pcall('zadd', queue, place, waiter)) == 'table' then
        return {code, holder, held, ttl_ms, 0, time_us, 0, note, 0}
    end
end
if type(redis.pcall('pexpire', queue, queue_ms)) == 'table' then
    -- Not allowed: a queue without an expiry would stay for ever.
    redis.pcall('zrem', queue, waiter)
    place = 0
end
-- Not allowed: nobody has to know it.
local length = tonumber(redis.pcall('zcard', queue)) or 0
return {code, holder, held, ttl_ms, tonumber(place), time_us, 0, note, length}
