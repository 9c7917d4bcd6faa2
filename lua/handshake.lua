-- handshake: compare and write the note that says since when this master's memory is whole. It is the first
-- script on every connection: a restart ends all connections, so no new memory votes without it.
--
-- KEYS[1] note     text   `<run_id> <since_us> <max_ttl_ms>`; since_us by this master's clock, 0: an operator
--                         stated that nothing was locked before; max_ttl_ms: the longest lease granted here;
--                         `<run_id>:durable`: a handshake found the master durable in this life;
--                         `<run_id>@<first_us>`: the same memory, whose clock was set back behind since_us
-- ARGV[1] run_id   text   of this master, from INFO on this connection, in a group with +<replication id>;
--                         empty: INFO is not allowed
-- ARGV[2] memory   text   `volatile`: a restart may lose it; `durable`: it loses nothing; `unknown`: the
--                         caller did not ask now; `unused`: no lease was granted on any master since its
--                         note was written; `vouched`: an operator says that nothing is locked
-- ARGV[3] known    text   the note that was found here; needed with `unused`
--
-- Reply: {code, note, 0, 0, time_us}: the present note, and this master's time
--    1  noted
--
-- Second delivery: finds the note of this memory, and leaves it.

local note = KEYS[1]
local run_id, memory, known = ARGV[1], ARGV[2], ARGV[3]

local time = redis.call('time')
local now_us = time[1] * 1000000 + time[2]
-- pcall: a key of another type is no note, and is replaced.
local text = redis.pcall('get', note)
if type(text) == 'table' and not string.find(text.err, 'WRONGTYPE', 1, true) then
    return text
end
local noted, since_us, max_ttl_ms = string.match(type(text) == 'string' and text or '', '^(%S*) (%d+) (%d+)$')
noted = noted and #since_us <= 16 and #max_ttl_ms <= 16 and noted -- no client reads longer numbers
local life, first_us = string.match(noted or '', '^([^@:]*)(@?%d*)')
local noted_group, names_group = string.find(life or '', '+', 1, true), string.find(run_id, '+', 1, true)
local durable = noted and string.find(noted, ':durable', 1, true) ~= nil
if noted and since_us + 0 > now_us then
    -- The clock was set back: no new client could date this memory. Now is never earlier than the truth.
    -- Clients that know the memory find first_us, and go on.
    first_us = first_us ~= '' and first_us or '@' .. since_us
    since_us = string.format('%.0f', now_us)
end

if memory == 'vouched' then
    since_us, max_ttl_ms, first_us = '0', '0', ''
    durable = durable and life == run_id
elseif not noted then
    -- A restart or a flush took the note, and the locks with it. A durable master may have lost its disk.
    since_us, max_ttl_ms = string.format('%.0f', now_us), '0'
    durable = memory == 'durable'
elseif (noted_group and not names_group) or (names_group and not noted_group and max_ttl_ms + 0 > 0) then
    -- The client names no group, or one where plain clients had a lease. It must not make the memory young.
    return {1, text, 0, 0, now_us}
elseif memory == 'unused' then
    -- The first use of the fleet need not wait if this server still has the memory with which it started.
    -- Checked here: the client would not see a flush between an INFO of its own and this call.
    if text ~= known then
        return {1, text, 0, 0, now_us}
    end
    local told = {}
    for i, section in ipairs({'commandstats', 'server', 'replication', 'stats'}) do
        local info = redis.pcall('info', section)
        told[i] = type(info) == 'string' and info or ''
    end
    local uptime_s = tonumber(string.match(told[2], '\nuptime_in_seconds:(%d+)'))
    local whole = string.find(told[1], 'cmdstat_', 1, true)
        and string.match(told[3], '\nmaster_replid2:0+\r')
        and string.find(told[4], '\nevicted_keys:0\r', 1, true)
    for _, command in ipairs({
        'flushall', 'flushdb', 'swapdb', 'replicaof', 'slaveof', 'debug', 'config|resetstat',
    }) do
        whole = whole and not string.find(told[1], 'cmdstat_' .. command .. ':', 1, true)
    end
    -- An uptime of a century or more comes from a clock that was set.
    if not whole or not uptime_s or uptime_s > 3155760000 or uptime_s * 1000000 > now_us then
        return {1, text, 0, 0, now_us}
    end
    -- Told in whole seconds: the server may be a second younger.
    since_us = string.format('%.0f', math.min(since_us + 0, now_us - (uptime_s - 1) * 1000000))
elseif run_id == '' or life == run_id then
    if memory ~= 'unknown' then
        -- CONFIG SET. The answer of a durable master shows that all earlier writes are on its disk.
        durable = memory == 'durable'
    end
    local changed = run_id .. first_us .. (durable and ':durable ' or ' ') .. since_us .. ' ' .. max_ttl_ms
    -- pcall: without free memory the note stays, and holders can renew.
    if run_id ~= '' and changed ~= text and redis.pcall('set', note, changed).ok then
        text = changed
    end
    return {1, text, 0, 0, now_us}
elseif memory ~= 'durable' or not durable then
    -- A note with another run_id came from a snapshot, a primary, or a file that was not synced in time. So
    -- later grants are lost. The present settings do not show it, because a start may change them.
    since_us, first_us = string.format('%.0f', now_us), ''
    durable = memory == 'durable'
end
text = run_id .. first_us .. (durable and ':durable ' or ' ') .. since_us .. ' ' .. max_ttl_ms
redis.call('set', note, text)
return {1, text, 0, 0, now_us}
