-- release: give up the lease and a place in the queue; then hand the lock to the next waiter, or wake all.
--
-- KEYS[1] lock           hash
-- KEYS[2] queue          zset  waiters by ticket; beside it, `evicted:<owner>` of each waiter is read
-- KEYS[3] fence          text  as in acquire.lua
-- KEYS[4] note           text  as in acquire.lua
-- KEYS[5] readers        zset  as in acquire.lua
-- KEYS[6] evicted        text  exists while an evicted owner must not come back; with ban_ms only
-- ARGV[1] channel        text  the lock's; empty: hand the lock to nobody and publish nothing
-- ARGV[2] claim_ms       ms    how long a waiter may claim the lock that was handed to it; 0: remove dead
--                              waiters, but hand the lock to nobody
-- ARGV[3] fence_ms       ms    as in acquire.lua
-- ARGV[4] message        text  published to all if no waiter is in the queue; `owner`, or left out: the
--                              owner token; empty: nothing (an undo)
-- ARGV[5] waiter         text  `<owner>|<client_id>`, the place to leave, with a hand-off to it; may be empty
-- ARGV[6] ban_ms         ms    how long the owner is neither healed nor handed the lock (it is evicted)
-- ARGV[7] reader         text  the owner token with which the owner reads on; without it ARGV[7] and ARGV[8]
--                              are left out
-- ARGV[8] reader_ms      ms    its lease
-- ARGV[n-1] proposal     us    the fencing token of the next owner, as in acquire.lua
-- ARGV[n] owner          text  `<client>:<uuid>`; empty: only hand on a lock that is free
--
-- Reply: {code, holder, count, ttl_ms, token}: the fencing token of an owner that reads on
--    1  released; count is the number of subscribers reached, ttl_ms the lease of a writer that reads on, or 0
--    0  absent: nobody holds it here, or it was free and is handed on; count as for 1
--       Both: count -2 says that one call could not pass all dead waiters. The lock is free and all were
--       told; with an empty owner the caller calls again.
--   -1  someone else's; holder, count and ttl_ms are theirs
--   -2  the key is not a lock (another type, or a hash that no lock wrote)
--
-- Message to a waiter: `<owner> <fencing token> <time_us> <note>`. It is the grant of this master: the waiter
-- has the lease for claim_ms from time_us on. `<owner>` alone: no grant; the waiter has to ask. `<owner> evicted`:
-- the waiter has to come again with another one. Readers at the head are invited together: each has claim_ms.
--
-- Second delivery: finds the owner gone, answers 0 or -1; a reader's may invite those at the head; a ban begins anew.

local lock, queue, fence, note_key, readers, evicted = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local channel, claim_ms, fence_ms, proposal, owner = ARGV[1], ARGV[2], ARGV[3], ARGV[#ARGV - 1], ARGV[#ARGV]
local message, waiter, ban_ms, reader, reader_ms = unpack(ARGV, 4, #ARGV - 2)

if ban_ms and ban_ms ~= '' then
    -- A DEL first: a server at maxmemory lets a script store something only after another write.
    redis.pcall('del', evicted)
    redis.pcall('set', evicted, owner, 'px', ban_ms)
end
local leaves = waiter and waiter ~= ''
if leaves then
    redis.pcall('zrem', queue, waiter)
end

-- The owner is the only field: without it the key is gone.
local code = redis.pcall('hdel', lock, owner)
if code == 0 and leaves then
    -- The lock was handed to this place, but its waiter won with another token, or is gone. Otherwise the
    -- lock would stay taken here until the claim expires.
    code = redis.pcall('hdel', lock, string.match(waiter, '^(.*)|') or waiter)
end
local READERS, reading, freed, read_on = 'readers:00000000000000000000000000000000', false, false, nil
if type(code) == 'table' then
    if string.find(code.err, 'WRONGTYPE', 1, true) then
        return {-2, '', 0, -1, 0}
    end
    return code
end
if code == 0 then
    local fields = redis.call('hlen', lock)
    -- HLEN first: HGETALL of a foreign hash with a million fields would stop the server.
    local entry = fields == 1 and redis.call('hgetall', lock)
    if fields ~= 0 and (not entry or not tonumber(entry[2])) then
        return {-2, '', 0, -1, 0}
    end
    reading = entry and entry[1] == READERS
    if not reader and string.find(owner, '+shared:', 1, true) then
        code = redis.call('zrem', readers, owner)
        redis.call('zrem', readers, string.match(waiter or '', '^(.*)|') or '')
        local time = redis.call('time')
        local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
        for _, ended in ipairs(redis.call('zrange', readers, '-inf', '(' .. now_ms, 'byscore')) do
            redis.call('zrem', readers, ended)
        end
        local last = redis.call(
            'zrange', readers, now_ms + 86400000, now_ms, 'byscore', 'rev', 'limit', 0, 1, 'withscores'
        )[2]
        if reading and last then
            redis.call('pexpire', lock, last - now_ms)
            redis.call('pexpire', readers, last - now_ms)
        elseif reading then
            redis.call('del', lock)
            entry, reading, freed = nil, false, true
        end
    end
    if reading and code == 1 then
        return {1, owner, 0, 0, 0}
    end
    if entry and not (reading and leaves and channel ~= '' and not reader) then
        return {-1, entry[1], tonumber(entry[2]), redis.call('pttl', lock), 0}
    end
    if code == 0 and not reading and not freed and owner ~= '' then
        return {0, '', 0, -2, 0}
    end
end
-- From here on nothing may raise: an error must not answer a release that has happened.
if channel == '' then
    return {code, owner, 0, 0, 0}
end

-- At most this many dead waiters in one call: each one stops the server for 2 to 4 us.
local limit = 200
local left = limit
local first = not reader and not reading and claim_ms ~= '0' and redis.pcall('zpopmin', queue)[1]
-- Skipped if nobody waits, the usual case: each function costs as much as a command.
if first or reader or reading or claim_ms == '0' then
    local function give(holder, lease_ms)
        local written = redis.pcall('hset', lock, holder, holder == READERS and '0' or '1')
        if type(written) ~= 'table' then
            written = redis.pcall('pexpire', lock, lease_ms)
        end
        if type(written) == 'table' then
            redis.pcall('del', lock)
            redis.pcall('hdel', lock, holder)
        end
        return type(written) ~= 'table'
    end

    local time = redis.pcall('time')
    local now_ms = time.err and 0 or time[1] * 1000 + math.floor(time[2] / 1000)
    -- A new fencing token, as in acquire.lua, and the time; false if the last token cannot be read, or the
    -- new one stored. New for the owner of the last one, too: the token names this grant for confirm.lua.
    local function stamp(holder)
        local last = redis.pcall('get', fence)
        if type(last) == 'table' or time.err then
            return false
        end
        local now_us = time[1] * 1000000 + time[2]
        local token = tonumber(string.match(last or '', '^(%d+) ') or 0)
        local least, kept_ms = proposal + 0, fence_ms
        if least < now_us - fence_ms * 1000 or least > 8e15 then
            least = now_us
        end
        token = math.max(token > 9e15 and 0 or token + 1, least)
        if token > now_us then
            kept_ms = string.format('%.0f', fence_ms + (token - now_us) / 1000)
        end
        local number = string.format('%.0f', token)
        local stored = redis.pcall('set', fence, number .. ' ' .. holder, 'px', kept_ms)
        return stored.ok and token, now_us
    end

    if reader then
        local last = redis.pcall('get', fence)
        -- It keeps its token: it is the last writer.
        local token = tonumber(string.match(type(last) == 'string' and last or '', '^(%d+) ') or 0)
        token = reader_ms + 0 <= 86400000 and (token > 0 and token or stamp(reader))
        if token and give(READERS, reader_ms) then
            redis.pcall('zadd', readers, now_ms + reader_ms, reader)
            redis.pcall('pexpire', readers, reader_ms)
            read_on = {code, owner, 1, tonumber(reader_ms), token}
            reading = true
        end
    end
    if reading then
        -- Readers at the head of the queue may join the others.
        first = redis.pcall('zrange', queue, 0, 0)[1]
        if not first or not string.find(first, '+shared:', 1, true) then
            return read_on or {-1, READERS, 0, redis.call('pttl', lock), 0}
        end
        redis.pcall('zrem', queue, first)
    end
    while claim_ms ~= '0' and left > 0 do
        first = first or redis.pcall('zpopmin', queue)[1]
        if not first then
            break
        end
        if string.find(first, '+shared:', 1, true) then
            local invited = 0
            repeat
                left = left - 1
                local to, client_id = string.match(first, '^(.*)(|[^|]*)$')
                local told = client_id and to ~= owner and redis.pcall('publish', channel .. client_id, to)
                if type(told) == 'number' and told > 0 then
                    invited = invited + 1
                    redis.pcall('zadd', readers, now_ms + claim_ms, to)
                end
                first = left > 0 and redis.pcall('zrange', queue, 0, 0)[1]
                first = first and string.find(first, '+shared:', 1, true) and redis.pcall('zpopmin', queue)[1]
            until not first
            if reading or (invited > 0 and give(READERS, claim_ms)) then
                local last = redis.pcall(
                    'zrange', readers, now_ms + 86400000, now_ms, 'byscore', 'rev', 'limit', 0, 1, 'withscores'
                )[2]
                if last then
                    redis.pcall('pexpire', lock, last - now_ms)
                    redis.pcall('pexpire', readers, last - now_ms)
                end
                return read_on or {reading and -1 or code, reading and READERS or owner, invited, 0, 0}
            end
            redis.pcall('del', readers) -- nobody has heard it, or the lock could not be written
            first = left > 0 and redis.pcall('zpopmin', queue)[1]
            if not first then
                break
            end
        end
        left = left - 1
        local holder, client_id = string.match(first, '^(.*)(|[^|]*)$')
        -- A place may come late, behind the eviction of its owner. The key has the uuid without its end.
        local evicted_key = string.sub(queue, 1, -6) .. 'evicted:' .. string.sub(holder or '', 1, -13)
        if holder and redis.pcall('exists', evicted_key) == 1 then
            redis.pcall('publish', channel .. client_id, holder .. ' evicted')
            holder = nil
        end
        -- Not behind a dead waiter: the tokens and the notes of many would stop the server for longer.
        local token, now_us
        if holder and left == limit - 1 then
            token, now_us = stamp(holder)
        end
        if holder and give(holder, claim_ms) then
            local grant, note = holder, token and redis.pcall('get', note_key)
            if token and type(note) ~= 'table' then
                grant = string.format('%s %.0f %.0f %s', holder, token, now_us, note or '')
            end
            local told = redis.pcall('publish', channel .. client_id, grant)
            if type(told) == 'number' and told > 0 then
                return {code, owner, told, 0, 0}
            end
            -- No subscriber: its process is dead. The next waiter must not wait for it.
            redis.pcall('del', lock)
        end
        first = nil
    end
    -- The lock is handed to nobody here. Dead waiters go all the same: else each caller would keep their queue.
    while claim_ms == '0' and left > 0 do
        left = left - 1
        local front = redis.pcall('zrange', queue, 0, 0)[1]
        if not front then
            break
        end
        local client_id = string.match(front, '|[^|]*$')
        local told = client_id and redis.pcall('publish', channel .. client_id, '')
        if (client_id and told ~= 0) or type(redis.pcall('zrem', queue, front)) == 'table' then
            break
        end
    end
end
if message == '' and (left > 0 or owner == '') then
    return {code, owner, left > 0 and 0 or -2, 0, 0}
end
-- After an undo, too, if live waiters may stand behind the dead: otherwise they would sleep over a free lock.
local text = message and message ~= '' and message ~= 'owner' and message or owner
local told = redis.pcall('publish', channel, text)
return {code, owner, left == 0 and -2 or type(told) == 'number' and told or -1, 0, 0}
