-- fence: store a fencing token, unless this master has given one as high.
--
-- KEYS[1] lock      hash
-- KEYS[2] fence     text   `<token> <owner>`, the last fencing token and its owner
-- KEYS[3] readers   zset   as in acquire.lua; left out unless the owner is a reader
-- ARGV[1] owner     text   `<client>:<uuid>`
-- ARGV[2] token     us
-- ARGV[3] fence_ms  ms     how long it is kept, as in acquire.lua
--
-- Reply: {code, owner, 0, 0, token}
--    1  stored for the owner, which has the lock here
--    0  stored, but the owner has no lock here: another one may have got a lower token before, whose reply is
--       still on its way. So this master does not count for the token.
--   -1  too low: token is the last one that was given here. Never for a reader: a later writer gets a higher one.
--
-- Second delivery: finds the token of the same owner, and answers by the lock as it is then.

local lock, fence, readers = KEYS[1], KEYS[2], KEYS[3]
local owner, token, fence_ms = ARGV[1], ARGV[2], ARGV[3]

local last, given_to = string.match(redis.call('get', fence) or '', '^(%d+) (.*)$')
last = tonumber(last or 0)
last = last <= 9e15 and last or 0 -- as in acquire.lua
if not readers and (last > tonumber(token) or (last == tonumber(token) and given_to ~= owner)) then
    return {-1, owner, 0, 0, last}
end
if last < tonumber(token) then
    local time, kept_ms = redis.call('time'), fence_ms
    local now_us = time[1] * 1000000 + time[2]
    if tonumber(token) > now_us then
        kept_ms = string.format('%.0f', fence_ms + (token - now_us) / 1000)
    end
    redis.call('set', fence, token .. ' ' .. owner, 'px', kept_ms)
end
local holds = type(redis.pcall('hget', lock, owner)) == 'string'
if readers then
    local time = redis.call('time')
    local until_ms = tonumber(redis.call('zscore', readers, owner) or -1)
    holds = until_ms >= time[1] * 1000 + math.floor(time[2] / 1000)
end
return {holds and 1 or 0, owner, 0, 0, tonumber(token)}
