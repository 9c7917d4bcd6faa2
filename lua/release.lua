-- release: give up the lease and the place in the queue; hand the lock to the next, or wake all.
--
-- KEYS[1] lock           hash
-- KEYS[2] queue          zset  waiters by ticket
-- KEYS[3] fence          text  `<token> <owner>`, the last fencing token and to whom it was given; left out
--                              where there is neither a next waiter nor a ban
-- KEYS[4] evicted        text  it is there while this owner, thrown out by an operator, is not to be healed;
--                              likewise
-- ARGV[1] owner          text  `<client>:<uuid>`; empty: only hand on what is free
-- ARGV[2] channel        text  the lock's; empty: hand it to nobody and publish nothing
-- ARGV[3] message        text  what to publish for all if nobody waits in the queue; empty: nothing (an undo)
-- ARGV[4] claim_ms       ms    how long a waiter may claim what it was handed; 0: only dead waiters go
-- ARGV[5] waiter         text  `<token>|<client_id>`, a place to leave, with what was handed to it; empty, or
--                              left out: none
-- ARGV[6] next_waiter    text  `<token>|<client_id>`, a waiter of the caller's own process; likewise
-- ARGV[7] next_owner     text  the owner token under which the next waiter is to have the lease
-- ARGV[8] next_lease_ms  ms    its lease
-- ARGV[9] order          text  `fair`: only if it is the first in the queue; `barging`: in any case
-- ARGV[10] proposal      us    the next waiter's fencing token, as in acquire.lua
-- ARGV[11] fence_ms      ms    how long the last fencing token is remembered, likewise
-- ARGV[12] ban_ms        ms    how long the owner is not to be healed: it is evicted; left out: it is not
--
-- Reply: {code, holder, count, ttl_ms, token}: token is the next waiter's fencing token, if it got the lock
--    1  released; count is the number of subscribers reached, ttl_ms the next waiter's lease, or 0
--    0  absent: nobody holds it here, or it was free and has been handed on; count likewise
--       of both: a count of -2 says that there were too many dead waiters for one call, and perhaps more. The
--       lock is free. All have been told, unless the owner is empty: then the caller calls again
--   -1  someone else's; holder, count and ttl_ms are theirs
--   -2  the key is not a lock (another type, or a hash that no lock wrote)
--
-- Second delivery: finds the owner gone, answers 0 or -1, writes and publishes nothing; a ban begins anew.
-- Called by: rlock/procedures/release.py; attempt.py to undo one, acquire.py to leave; inspect.py to evict;
-- rlock/_client/hand_off.py to pass on what nobody here waits for any more

local lock, queue, fence, evicted = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local owner, channel, message, claim_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local waiter, next_waiter, next_owner = ARGV[5] or '', ARGV[6] or '', ARGV[7]
local next_lease_ms, order = ARGV[8], ARGV[9]
local proposal, fence_ms, ban_ms = ARGV[10], ARGV[11], ARGV[12]

if ban_ms then
    -- A DEL first: without memory, only a script that has written already may store anything.
    redis.pcall('del', evicted)
    redis.pcall('set', evicted, owner, 'px', ban_ms)
end
if waiter ~= '' then
    redis.pcall('zrem', queue, waiter)
end

local held = redis.pcall('hget', lock, owner)
if not held and waiter ~= '' then
    -- Handed to the place of one who got the lock elsewhere, under another token.
    held = redis.pcall('hget', lock, string.match(waiter, '^(.*)|') or waiter)
end
if type(held) == 'table' then
    if string.find(held.err, 'WRONGTYPE', 1, true) then
        return {-2, '', 0, -1, 0}
    end
    return held
end
if not held then
    local fields = redis.call('hlen', lock)
    -- Before HGETALL: a hash of somebody's that has a million fields would stop the server for its reply.
    local entry = fields == 1 and redis.call('hgetall', lock)
    if fields ~= 0 and (not entry or not tonumber(entry[2])) then
        return {-2, '', 0, -1, 0}
    end
    if entry then
        return {-1, entry[1], tonumber(entry[2]), redis.call('pttl', lock), 0}
    end
    if owner ~= '' then
        return {0, '', 0, -2, 0}
    end
else
    redis.call('del', lock)
end
-- From here on nothing may raise: a release that has happened must not be answered by an error.
local code = held and 1 or 0
if channel == '' then
    return {code, owner, 0, 0, 0}
end

-- Dead waiters that one call passes over: each costs the server 2 to 4 us, in which it serves nobody else.
local left = 200
local first = next_waiter == '' and claim_ms ~= '0' and redis.pcall('zpopmin', queue)[1]
-- Nearly always nobody waits, and there is nothing to do here; a function that nobody needs costs a command.
if first or next_waiter ~= '' or claim_ms == '0' then
    local function give(holder, lease_ms)
        local written = redis.pcall('hset', lock, holder, '1')
        if type(written) ~= 'table' then
            written = redis.pcall('pexpire', lock, lease_ms)
        end
        if type(written) == 'table' then
            redis.pcall('del', lock)
            redis.pcall('hdel', lock, holder)
        end
        return type(written) ~= 'table'
    end

    if next_waiter ~= '' then
        -- As in acquire.lua; false if the last cannot be read, or the new one not be remembered.
        local function stamp()
            local last = redis.pcall('get', fence)
            if type(last) == 'table' then
                return false
            end
            local token, given_to = string.match(last or '', '^(%d+) (.*)$')
            if given_to == next_owner then
                return tonumber(token)
            end
            local time, least, kept_ms = redis.pcall('time'), tonumber(proposal), fence_ms
            local now_us = time.err and least or time[1] * 1000000 + time[2]
            if least < now_us - fence_ms * 1000 then
                least = now_us
            end
            token = math.max(tonumber(token or 0) + 1, least)
            local number = string.format('%.0f', token)
            if token > now_us then
                kept_ms = string.format('%.0f', fence_ms + (token - now_us) / 1000)
            end
            local stored = redis.pcall('set', fence, number .. ' ' .. next_owner, 'px', kept_ms)
            return stored.ok and token
        end

        local front = redis.pcall('zrange', queue, 0, 0)[1]
        local token = (order == 'barging' or not front or front == next_waiter) and stamp()
        if token and give(next_owner, next_lease_ms) then
            redis.pcall('zrem', queue, next_waiter)
            return {code, owner, 1, tonumber(next_lease_ms), token}
        end
    end
    while claim_ms ~= '0' and left > 0 do
        first = first or redis.pcall('zpopmin', queue)[1]
        if not first then
            break
        end
        left = left - 1
        local holder, client_id = string.match(first, '^(.*)(|[^|]*)$')
        if holder and give(holder, claim_ms) then
            local told = redis.pcall('publish', channel .. client_id, holder)
            if type(told) == 'number' and told > 0 then
                return {code, owner, told, 0, 0}
            end
            -- Nobody listens there any more: its process is dead. The next one must not wait for it.
            redis.pcall('del', lock)
        end
        first = nil
    end
    -- Handed to nobody; but the dead go, or each that comes by would keep them in the queue.
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
-- After an undo, too, if waiters may live behind the dead: they must not sleep over a free lock.
local told = redis.pcall('publish', channel, message ~= '' and message or owner)
return {code, owner, left == 0 and -2 or type(told) == 'number' and told or -1, 0, 0}
