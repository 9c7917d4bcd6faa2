-- acquire: grant the lease on this master if nobody has it, or if it was handed to the caller's place; else
-- give the caller a place in the queue.
--
-- KEYS[1] lock       hash
-- KEYS[2] queue      zset   waiters by ticket
-- KEYS[3] fence      text   `<token> <owner>`, the last fencing token and to whom it was given
-- KEYS[4] note       text   since when the memory is whole: lua/handshake.lua; left out: restart guard off
-- ARGV[1] owner      text   `<client>:<uuid>`
-- ARGV[2] lease_ms   ms
-- ARGV[3] proposal   us     the fencing token to give, unless one as high was given; older than fence_ms, as
--                           0 is: this master's time
-- ARGV[4] fence_ms   ms     how long the last fencing token is remembered; a token that is ahead of this
--                           master's time: so long from its own time on
-- ARGV[5] count      holds  left out: 1
-- ARGV[6] order      text   `fair`: a free lock is for the first in the queue; `barging`, or left out: for
--                           whoever asks
-- ARGV[7] waiter     text   `<token>|<client_id>`, the caller's place; empty or left out: it does not wait
-- ARGV[8] ticket     us     its place in the queue; 0: by this master's time; empty or left out: none
-- ARGV[9] rank       text   `last`: behind all who stand here, whatever the ticket; `kept`: just there
-- ARGV[10] queue_ms  ms     how long the queue outlives its last visitor; needed with a ticket
-- ARGV[11] told      text   `brief`: ttl_ms in steps of 10, neither length nor time_us (unless that is the
--                           ticket), which are 0; left out: all
--
-- Reply: {code, holder, count, ttl_ms, ticket, time_us, token, note, length}: ticket is that of the place
-- (0: none was asked for, or none is needed), time_us this master's time (in a grant 0, unless the proposal
-- is more than a second from it), token the fencing token of a grant, length that of the queue with the place
--    1  granted: the caller holds the lease, and has no place any more
--   -1  refused: someone else's; holder, count and ttl_ms (-1: no expiry) are theirs
--   -2  refused: the key is not a lock (another type, or a hash that no lock wrote)
--   -3  refused: free, and it is the turn of the waiter that holder names
--
-- Second delivery: the same count, token and lease again, counted from its own arrival; a place that is
-- there stays.
-- Called by: rlock/procedures/attempt.py

local lock, queue, fence, note_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local owner, lease_ms, proposal, fence_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local count, order, waiter, ticket = ARGV[5] or '1', ARGV[6], ARGV[7] or '', ARGV[8] or ''
local rank, queue_ms, told = ARGV[9], ARGV[10], ARGV[11]

local fields = redis.pcall('hlen', lock)
if fields ~= 0 and type(fields) == 'table' and not string.find(fields.err, 'WRONGTYPE', 1, true) then
    return fields
end
-- In the same call: a client that was idle would not see that a flush took the note, and the locks with it.
local note = note_key and redis.call('get', note_key) or ''
if fields ~= 0 and fields ~= 1 then
    return {-2, '', 0, -1, 0, 0, 0, note, 0}
end

local brief = told == 'brief'
-- No functions: each would be made anew by every call, and cost it as much as a command.
local holder, held, first, again, handed = '', 0, nil, false, false
if fields == 1 then
    local entry = redis.call('hgetall', lock)
    holder, held = entry[1], tonumber(entry[2])
    if not held then
        return {-2, '', 0, -1, 0, 0, 0, note, 0}
    end
    again = holder == owner
    handed = holder ~= '' and string.sub(waiter, 1, #holder + 1) == holder .. '|'
elseif order == 'fair' then
    first = redis.call('zrange', queue, 0, 0)[1]
end

if not again and not handed and (fields == 1 or (first and first ~= waiter)) then
    local code, ttl_ms = -1, 0
    if fields == 0 then
        code, holder = -3, first
    else
        ttl_ms = redis.call('pttl', lock)
        if brief and ttl_ms > 0 then
            -- So that all masters tell the same, which is read once.
            ttl_ms = ttl_ms + -ttl_ms % 10
        end
    end
    if waiter == '' or ticket == '' then
        return {code, holder, held, ttl_ms, 0, 0, 0, note, 0}
    end

    local time_us = 0
    if not brief or ticket == '0' then
        local time = redis.call('time')
        time_us = time[1] * 1000000 + time[2]
    end
    local place, stands = ticket ~= '0' and tonumber(ticket) or time_us, false
    -- As it came: to write a number as a text costs as much as a command.
    local score = ticket ~= '0' and ticket or time_us
    if rank == 'last' then
        local last = redis.pcall('zrange', queue, -1, -1, 'withscores')
        if last.err then
            -- Somebody else's key, or not allowed: it waits without a place.
            return {code, holder, held, ttl_ms, 0, time_us, 0, note, 0}
        end
        local latest = last[2] and tonumber(last[2])
        stands = last[1] == waiter
        if stands then
            place = latest
        elseif latest and place <= latest then
            -- First come, first served, whatever the caller's idea of the time.
            place = latest + 1
            score = place
        end
    end
    if not stands then
        local added = rank == 'kept' and redis.pcall('zadd', queue, score, waiter)
            or redis.pcall('zadd', queue, 'nx', score, waiter)
        if added ~= 1 and rank ~= 'kept' then
            -- It stands there already; or there is no memory for a new place.
            place = redis.pcall('zscore', queue, waiter)
        elseif type(added) == 'table' then
            place = nil
        end
        -- Refused for want of memory: it waits without a place, and who holds the lock is told all the same.
        if not place or type(place) == 'table' then
            return {code, holder, held, ttl_ms, 0, time_us, 0, note, 0}
        end
    end
    if type(redis.pcall('pexpire', queue, queue_ms)) == 'table' then
        -- Not allowed: a queue without an expiry would stay for ever.
        redis.pcall('zrem', queue, waiter)
        place = 0
    end
    -- Not allowed: nobody has to know it.
    local length = not brief and tonumber(redis.pcall('zcard', queue)) or 0
    return {code, holder, held, ttl_ms, tonumber(place), time_us, 0, note, length}
end

if note ~= '' then
    -- Otherwise a client with a shorter max_ttl would count a vote of this master, after a restart of
    -- another, while the present lease is still valid there.
    local known, longest = string.match(note, '^(%S* %d+) (%d+)$')
    if known and longest + 0 < lease_ms + 0 then
        note = known .. ' ' .. lease_ms
        redis.call('set', note_key, note)
    end
end
if again then
    -- Before the token: without memory, only a script that has written already may store one.
    redis.call('pexpire', lock, lease_ms)
end
-- Before the grant: what may be refused here (memory, an ACL) must not leave a lock without a token.
local last, given_to = string.match(redis.call('get', fence) or '', '^(%d+) (.*)$')
-- `+ 0` is tonumber() for half of its price: that reads the text twice.
local token, time_us = (last or 0) + 0, 0
if given_to ~= owner then
    local given, kept_ms = proposal + 0, fence_ms
    -- As it came: to write a number as a text costs as much as a command.
    local number = given > token and proposal
    local time = redis.call('time')
    local now_us = time[1] * 1000000 + time[2]
    if given < now_us - 1000000 or given > now_us + 1000000 then
        -- Otherwise a client that never waits would not learn that a clock was set.
        time_us = now_us
        if given < now_us - fence_ms * 1000 then
            -- A token that was forgotten here may be above it.
            given, number = now_us, false
        end
    end
    if not number then
        -- Above every token that was given here: of two majorities some master is in both.
        given = math.max(token + 1, given)
        number = string.format('%.0f', given)
    end
    token = given
    if token > now_us then
        -- Forgotten earlier, it could be above the next one, which may begin at this master's time.
        kept_ms = string.format('%.0f', fence_ms + (token - now_us) / 1000)
    end
    redis.call('set', fence, number .. ' ' .. owner, 'px', kept_ms)
end
if again then
    return {1, owner, held, tonumber(lease_ms), 0, time_us, token, note, 0}
end
if handed then
    redis.call('del', lock)
end
redis.call('hset', lock, owner, count)
local expiry = redis.pcall('pexpire', lock, lease_ms)
if expiry ~= 1 then
    -- PEXPIRE denied (an ACL): without this the key would stay for ever, there is no rollback.
    redis.pcall('del', lock)
    redis.pcall('hdel', lock, owner)
    return expiry
end
if waiter ~= '' then
    redis.pcall('zrem', queue, waiter)
end
return {1, owner, count + 0, lease_ms + 0, 0, time_us, token, note, 0}
