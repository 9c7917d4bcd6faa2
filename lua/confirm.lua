-- confirm: prolong a lease that this master handed to a waiter, if exactly this grant still stands. It never
-- grants: otherwise a waiter whose claim has expired would take its own confirmation for a proof.
--
-- KEYS[1] lock      hash
-- KEYS[2] fence     text   as in acquire.lua; each hand-off has a new token, so it names the grant
-- KEYS[3] note      text   as in acquire.lua
-- ARGV[1] lease_ms  ms
-- ARGV[2] token     us     the fencing token in this master's message
-- ARGV[3] owner     text   `<client>:<uuid>`
--
-- Reply: {owner, codes, note}: as of renew.lua, for one lock
--    1  unbroken: the owner has had the lease since its grant, and has it for lease_ms from now
--    0  absent: nobody holds it here
--   -1  someone else's, another grant of this owner, or not a lock
--
-- Second delivery: prolongs the same grant again, from its own arrival.

local lock, fence, note_key = KEYS[1], KEYS[2], KEYS[3]
local lease_ms, token, owner = ARGV[1], ARGV[2], ARGV[3]

if lease_ms + 0 > 86400000 then
    return {err = 'ERR lease_ms=' .. lease_ms .. ' is over a day'}
end
local code = -1
local held = redis.pcall('hget', lock, owner)
if type(held) == 'string' then
    if redis.call('get', fence) == token .. ' ' .. owner then
        redis.call('pexpire', lock, lease_ms)
        code = 1
    end
elseif held and not string.find(held.err, 'WRONGTYPE', 1, true) then
    return held
elseif held == false and redis.call('exists', lock) == 0 then
    code = 0
end
local note = note_key and redis.pcall('get', note_key) or ''
note = note.err and (string.find(note.err, 'WRONGTYPE', 1, true) and '' or error(note.err)) or note
return {owner, {code}, note}
