-- readers: prolong the shared leases of many locks of one process, or put them back.
--
-- KEYS[4i-3] lock      hash
-- KEYS[4i-2] fence     text   `<token> <owner>`, the last fencing token and its owner
-- KEYS[4i-1] evicted   text   exists while an evicted reader must not be healed
-- KEYS[4i]   readers   zset   as in acquire.lua
-- KEYS[n]    note      text   as in acquire.lua
-- ARGV[1]    lease_ms  ms
-- ARGV[2]    fence_ms  ms     how long the last fencing token is kept, as in acquire.lua
-- ARGV[3]    task      text   `renew`; or `heal`: put back what is absent
-- ARGV[2i+2] owner     text   `<client>:<uuid>`, a reader
-- ARGV[2i+3] token     us     its fencing token
--
-- Reply: {owner, codes, note}: the first owner, as an echo, and one code for each lock in the order of KEYS
--    2  healed: it was absent, and is a reader's again for lease_ms from now
--    1  renewed: the lease runs lease_ms from now
--    0  absent: nobody holds it here, or other readers do; or the server refused to write
--   -1  a writer's, or not a lock, or the reader was evicted
--
-- Second delivery: as of renew.lua.

local lease_ms, fence_ms, task = ARGV[1], ARGV[2], ARGV[3]
local locks = (#ARGV - 3) / 2
local note_key = KEYS[4 * locks + 1]
local codes, changed = {}, false
local READERS = 'readers:00000000000000000000000000000000'

if lease_ms + 0 > 86400000 then
    return {err = 'ERR lease_ms=' .. lease_ms .. ' is over a day'}
end
local time = redis.call('time')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
for i = 1, locks do
    local lock, fence, evicted, readers = KEYS[4 * i - 3], KEYS[4 * i - 2], KEYS[4 * i - 1], KEYS[4 * i]
    local owner, token = ARGV[2 * i + 2], ARGV[2 * i + 3]
    local reading = redis.pcall('hget', lock, READERS)
    if type(reading) == 'table' and not string.find(reading.err, 'WRONGTYPE', 1, true) then
        return reading
    end
    local code = -1
    if type(reading) == 'string' or (reading == false and redis.call('exists', lock) == 0) then
        code = reading and (tonumber(redis.pcall('zscore', readers, owner)) or -1) >= now_ms and 1 or 0
    end
    if code == 0 and task == 'heal' then
        local banned = redis.pcall('get', evicted)
        code = type(banned) == 'string' and -1 or type(banned) == 'table' and 0 or 2
    end
    if code > 0 then
        -- Before the others: a server at maxmemory lets a script store something only after another write.
        redis.call('pexpire', lock, lease_ms)
        if type(redis.pcall('zadd', readers, now_ms + lease_ms, owner)) == 'table' then
            code = 0
        else
            for _, ended in ipairs(redis.call('zrange', readers, '-inf', '(' .. now_ms, 'byscore')) do
                redis.call('zrem', readers, ended)
            end
            local last = redis.call(
                'zrange', readers, now_ms + 86400000, now_ms, 'byscore', 'rev', 'limit', 0, 1, 'withscores'
            )[2]
            redis.call('pexpire', readers, last - now_ms)
            redis.call('hset', lock, READERS, reading or '0')
            redis.call('pexpire', lock, last - now_ms)
            changed = true
        end
    end
    if code == 2 then
        -- As renew.lua does: the next token must be above this reader's.
        local last = redis.pcall('get', fence)
        local given = type(last) ~= 'table' and tonumber(string.match(last or '', '^(%d+) ') or 0)
        if given and (given < tonumber(token) or given > 9e15) then
            local ahead_ms = (token - time[1] * 1000000 - time[2]) / 1000
            local kept_ms = string.format('%.0f', fence_ms + math.max(0, ahead_ms))
            redis.pcall('set', fence, token .. ' ' .. owner, 'px', kept_ms)
        end
    end
    codes[i] = code
end
local note = note_key and redis.pcall('get', note_key) or ''
note = note.err and (string.find(note.err, 'WRONGTYPE', 1, true) and '' or error(note.err)) or note
local known, longest = string.match(note, '^(%S* %d+) (%d+)$')
if changed and known and longest + 0 < lease_ms + 0 then
    -- As renew.lua does: a lease that stands here from now on.
    local longer = known .. ' ' .. lease_ms
    note = redis.pcall('set', note_key, longer).ok and longer or note
end
return {ARGV[4], codes, note}
