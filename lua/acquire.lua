-- acquire: grant the lease if the lock is free, or was handed to the caller's place. Otherwise give it a place.
--
-- Shared holds: while readers hold the lock, its only field is READERS, and `readers` has the deadline of each
-- one. A reader that was invited has one under the owner of its place, until it comes or leaves. So a caller that
-- knows nothing of readers finds a lock that is taken. `+shared:` in an owner or place tells a reader.
--
-- KEYS[1] lock       hash
-- KEYS[2] queue      zset   waiters by ticket
-- KEYS[3] fence      text   `<token> <owner>`, the last fencing token and its owner
-- KEYS[4] note       text   since when the memory is whole (handshake.lua); left out: restart guard off
-- KEYS[#KEYS] readers  zset  readers by the end of their leases, in ms of this master's time; `shared` only
-- ARGV[1] lease_ms   ms
-- ARGV[2] fence_ms   ms     how long the last fencing token is kept, from its own time on if that is later
-- ARGV[3] order      text   `fair`: a free lock is for the first in the queue; `shared`: beside other readers,
--                           unless an exclusive waiter is ahead in the queue; else for any caller
-- ARGV[4] rank       text   `last`: behind the present waiters, whatever the ticket; `kept`: at the ticket;
--                           who does not wait leaves out ARGV[4] to ARGV[7]; with `shared` ARGV[6] is empty
-- ARGV[5] queue_ms   ms     how long the queue is kept after the last call of a waiter
-- ARGV[6] waiter     text   `<owner>|<client_id>`, the caller's place
-- ARGV[7] ticket     us     its position in the queue; 0 or less, or 8e15 or more: this master's time
-- ARGV[8] channel    text   the lock's; `shared` only
-- ARGV[n-1] owner    text   `<client>:<uuid>`
-- ARGV[n] proposal   us     the fencing token to give, unless one as high was given; older than fence_ms:
--                           this master's time replaces it; a reader gets the last token, if there is one
--
-- Reply: {code, holder, count, ttl_ms, ticket, time_us, token, note, length}: ticket of the place (0: none),
-- time_us is 0 in a grant if the proposal is within a second of it, length of the queue
--    1  granted: the caller holds the lease and has no place any more
--   -1  refused: someone else's; holder, count and ttl_ms (-1: no expiry) are theirs
--   -2  refused: the key is not a lock (another type, or a hash that no lock wrote)
--   -3  refused: free, and it is the turn of the waiter that holder names
--
-- Second delivery: gives the same token and lease again, counted from its own arrival; keeps the place.

local lock, queue, fence, note_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local lease_ms, fence_ms, owner, proposal = ARGV[1], ARGV[2], ARGV[#ARGV - 1], ARGV[#ARGV]
local order, rank, queue_ms, waiter, ticket, channel = unpack(ARGV, 3, #ARGV - 2)
local readers = order == 'shared' and KEYS[#KEYS]
if readers then
    note_key = note_key ~= readers and note_key
    waiter = waiter ~= '' and waiter
end

if lease_ms + 0 > 86400000 then
    return {err = 'ERR lease_ms=' .. lease_ms .. ' is over a day'}
end
local fields = redis.pcall('hlen', lock)
if fields ~= 0 and type(fields) == 'table' and not string.find(fields.err, 'WRONGTYPE', 1, true) then
    return fields
end
-- In the same call: otherwise an idle client would not see that a flush took the note and the locks.
-- A key of another type is no note: the handshake that the client sends then replaces it.
local note = note_key and redis.pcall('get', note_key) or ''
note = note.err and (string.find(note.err, 'WRONGTYPE', 1, true) and '' or error(note.err)) or note
local entry = fields == 1 and redis.call('hgetall', lock)
local holder, held = entry and entry[1] or '', entry and tonumber(entry[2]) or 0
if fields ~= 0 and not (entry and tonumber(entry[2])) then
    return {-2, '', 0, -1, 0, 0, 0, note, 0}
end

-- No functions: Lua creates each one anew in every call, at the cost of a command.
local first, again, handed = nil, false, false
if entry then
    again = holder == owner
    handed = waiter and string.sub(waiter, 1, #holder + 1) == holder .. '|'
elseif order == 'fair' then
    first = redis.call('zrange', queue, 0, 0)[1]
end

local READERS, now_ms, reading, invited, came = 'readers:00000000000000000000000000000000', 0, false, nil, false
if readers then
    local time = redis.call('time')
    now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
    reading = holder == READERS
    again = (fields == 0 or reading) and (redis.call('zscore', readers, owner) or -1) + 0 >= now_ms
    -- This reader was invited: a writer that came since, at an earlier ticket, is not ahead of it.
    invited = waiter and string.match(waiter, '^(.*)|')
    came = reading and invited and (redis.call('zscore', readers, invited) or -1) + 0 >= now_ms
    -- Otherwise readers that come and go would keep the writers out for ever.
    local asks = not again and not came and (fields == 0 or reading)
    local line = asks and redis.call('zrange', queue, 0, 99, 'withscores') or {}
    for i = 1, #line, 2 do
        local other = line[i]
        if other == waiter or (rank == 'kept' and line[i + 1] + 0 >= ticket + 0) then
            break
        elseif not string.find(other, '+shared:', 1, true) then
            local client_id = string.match(other, '|[^|]*$') or ''
            -- No subscriber: its process is dead, and nobody else would remove it while readers hold the lock.
            if not reading or redis.pcall('publish', channel .. client_id, '') ~= 0 then
                first = other
                break
            end
            redis.pcall('zrem', queue, other)
        end
    end
end

if not again and not handed and ((fields == 1 and not reading) or (first and first ~= waiter)) then
    local code, ttl_ms = -1, 0
    if fields == 0 then
        code, holder = -3, first
    else
        ttl_ms = redis.call('pttl', lock)
    end
    if not waiter then
        return {code, holder, held, ttl_ms, 0, 0, 0, note, 0}
    end

    local time = redis.call('time')
    local time_us = time[1] * 1000000 + time[2]
    local place, score, stands = time_us, time_us, false
    if ticket + 0 > 0 and ticket + 0 < 8e15 then
        -- Reuse the argument string: formatting a number costs as much as a command.
        place, score = tonumber(ticket), ticket
    end
    if rank == 'last' then
        local last = redis.pcall('zrange', queue, -1, -1, 'withscores')
        if last.err then
            -- Another type of key, or an ACL: the caller waits without a place.
            return {code, holder, held, ttl_ms, 0, time_us, 0, note, 0}
        end
        local latest = last[2] and tonumber(last[2])
        stands = last[1] == waiter
        if stands then
            place = latest
        elseif
            latest
            and (tonumber(redis.pcall('zcard', queue)) or 0) >= 20000
            and redis.pcall('zscore', queue, waiter) == false
        then
            -- Full: the next one to take a free lock skips the dead of the queue, 2 us each.
            return {code, holder, held, ttl_ms, 0, time_us, 0, note, 0}
        elseif latest and place <= latest and latest + 1 < 8e15 then
            -- First come, first served, even if the caller's estimate of the time is wrong.
            place, score = latest + 1, latest + 1
        end
    end
    if not stands then
        local added = rank == 'kept' and redis.pcall('zadd', queue, score, waiter)
            or redis.pcall('zadd', queue, 'nx', score, waiter)
        if added ~= 1 and rank ~= 'kept' then
            -- The place exists already, or the server has no memory for a new one.
            place = redis.pcall('zscore', queue, waiter)
        elseif type(added) == 'table' then
            place = nil
        end
        -- No memory: the caller waits without a place, and still learns who holds the lock.
        if not place or type(place) == 'table' then
            return {code, holder, held, ttl_ms, 0, time_us, 0, note, 0}
        end
    end
    if type(redis.pcall('pexpire', queue, queue_ms)) == 'table' then
        -- An ACL: a queue without an expiry would stay for ever.
        redis.pcall('zrem', queue, waiter)
        place = 0
    end
    -- An ACL may forbid ZCARD: the length is optional.
    local length = tonumber(redis.pcall('zcard', queue)) or 0
    return {code, holder, held, ttl_ms, tonumber(place), time_us, 0, note, length}
end

if again and not readers then
    -- Before the token: a server at maxmemory lets a script store one only after another write.
    redis.call('pexpire', lock, lease_ms)
end
-- Before the grant: a refused write (memory, an ACL) must not leave a lock without a token.
local last, given_to = string.match(redis.call('get', fence) or '', '^(%d+) (.*)$')
-- `+ 0` costs half of tonumber(), which reads the text twice.
local token, time_us = (last or 0) + 0, 0
if token > 9e15 then
    token, given_to = 0, nil -- no script gave it, and a double has no room for the tokens above it
end
if given_to ~= owner and not (readers and token > 0) then
    local given, kept_ms = proposal + 0, fence_ms
    -- Reuse the argument string: formatting a number costs as much as a command.
    local number = given > token and proposal
    local time = redis.call('time')
    local now_us = time[1] * 1000000 + time[2]
    if given < now_us - 1000000 or given > now_us + 1000000 then
        -- Otherwise a client that never waits would not learn that a clock was set.
        time_us = now_us
        if given < now_us - fence_ms * 1000 or given > 8e15 then
            -- This master may have forgotten a higher token.
            given, number = now_us, false
        end
    end
    if not number then
        -- Above each earlier token of this master: two majorities share at least one master.
        given = math.max(token + 1, given)
        number = string.format('%.0f', given)
    end
    token = given
    if token > now_us then
        -- Kept for longer: otherwise the next token, which may start at this master's time, could be lower.
        kept_ms = string.format('%.0f', fence_ms + (token - now_us) / 1000)
    end
    redis.call('set', fence, number .. ' ' .. owner, 'px', kept_ms)
end
if again and not readers then
    return {1, owner, held, tonumber(lease_ms), 0, time_us, token, note, 0}
end
if handed then
    redis.call('del', lock)
end
local field, count, expires_ms = owner, '1', lease_ms
if readers then
    redis.call('zrem', readers, invited or '')
    redis.call('zadd', readers, now_ms + lease_ms, owner)
    for _, ended in ipairs(redis.call('zrange', readers, '-inf', '(' .. now_ms, 'byscore')) do
        redis.call('zrem', readers, ended)
    end
    -- The key lives as long as the last lease; one of more than a day is not ours.
    expires_ms = redis.call(
        'zrange', readers, now_ms + 86400000, now_ms, 'byscore', 'rev', 'limit', 0, 1, 'withscores'
    )[2] - now_ms
    redis.call('pexpire', readers, expires_ms)
    field, count = READERS, '0'
end
redis.call('hset', lock, field, count)
local expiry = redis.pcall('pexpire', lock, expires_ms)
if expiry ~= 1 then
    -- An ACL forbids PEXPIRE: without this the key would stay for ever, because nothing is rolled back.
    redis.pcall('del', lock)
    redis.pcall('hdel', lock, field)
    return expiry
end
if waiter then
    redis.pcall('zrem', queue, waiter)
end
return {1, owner, 1, lease_ms + 0, 0, time_us, token, note, 0}
