-- heal: put the keys of a holder back on a master that lost them, or never had them.
--
-- KEYS[3i-2] lock      hash
-- KEYS[3i-1] fence     text   `<token> <owner>`, the last fencing token and its owner
-- KEYS[3i]   evicted   text   exists while an evicted owner must not be healed
-- KEYS[n]    note      text   as in acquire.lua
-- ARGV[1]    lease_ms  ms
-- ARGV[2]    fence_ms  ms     how long the last fencing token is kept, as in acquire.lua
-- ARGV[3i]   owner     text   `<client>:<uuid>`
-- ARGV[3i+1] count     holds
-- ARGV[3i+2] token     us     the holder's fencing token
--
-- Reply: {owner, codes, note}: the first owner, as an echo, and one code for each lock in the order of KEYS
--    2  healed: it was absent, and is the owner's again for lease_ms from now
--    1  renewed: it was the owner's
--    0  absent still: the server refused a write, or to read whether the owner was evicted
--   -1  someone else's, or not a lock, or the owner was evicted
--
-- Second delivery: finds the owner and renews. After the release it would bring the lock back, so its sender
-- repeats the release behind it.

local lease_ms, fence_ms = ARGV[1], ARGV[2]
local locks = (#ARGV - 2) / 3
local note_key = KEYS[3 * locks + 1]
local codes, healed = {}, false

if lease_ms + 0 > 86400000 then
    return {err = 'ERR lease_ms=' .. lease_ms .. ' is over a day'}
end
for i = 1, locks do
    local lock, fence, evicted = KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i]
    local owner, count, token = ARGV[3 * i], ARGV[3 * i + 1], ARGV[3 * i + 2]
    local held = redis.pcall('hget', lock, owner)
    local banned = redis.pcall('get', evicted)
    if type(held) == 'string' then
        redis.call('pexpire', lock, lease_ms)
        codes[i] = 1
    elseif held and not string.find(held.err, 'WRONGTYPE', 1, true) then
        return held
    elseif held or redis.call('exists', lock) == 1 or type(banned) == 'string' then
        codes[i] = -1
    elseif type(banned) == 'table' or type(redis.pcall('hset', lock, owner, count)) == 'table' then
        codes[i] = 0
    elseif type(redis.pcall('pexpire', lock, lease_ms)) == 'table' then
        -- Not allowed: a lock without an expiry would stay for ever.
        redis.pcall('del', lock)
        redis.pcall('hdel', lock, owner)
        codes[i] = 0
    else
        codes[i], healed = 2, true
        -- The master lost the fencing token with the key: its next token must be above this holder's. A token
        -- that cannot be read may be higher, and stays.
        local last = redis.pcall('get', fence)
        local given = type(last) ~= 'table' and tonumber(string.match(last or '', '^(%d+) ') or 0)
        if given and (given < tonumber(token) or given > 9e15) then
            local time, kept_ms = redis.pcall('time'), fence_ms
            local now_us = time.err and math.huge or time[1] * 1000000 + time[2]
            if tonumber(token) > now_us then
                kept_ms = string.format('%.0f', fence_ms + (token - now_us) / 1000)
            end
            redis.pcall('set', fence, token .. ' ' .. owner, 'px', kept_ms)
        end
    end
end
local note = note_key and redis.pcall('get', note_key) or ''
note = note.err and (string.find(note.err, 'WRONGTYPE', 1, true) and '' or error(note.err)) or note
local known, longest = string.match(note, '^(%S* %d+) (%d+)$')
if healed and known and longest + 0 < lease_ms + 0 then
    -- As renew.lua does: a lease that stands here from now on.
    note = known .. ' ' .. lease_ms
    redis.pcall('set', note_key, note)
end
return {ARGV[3], codes, note}
