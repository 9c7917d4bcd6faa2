-- mark: note since when this master's memory is known to be whole; a restart or a flush loses the note.
--
-- KEYS[1] marker      text   `<life> <since_us> <max_ttl_ms>`
-- ARGV[1] life        text   run_id of the server's present life
-- ARGV[2] age_us      us     how long this life is known to last; empty: the operator states that nothing
--                            was locked before it
-- ARGV[3] max_ttl_ms  ms     the longest lease of the fleet; a longer one that was noted in this life stays,
--                            unless the operator speaks
--
-- Reply: {code, marker, 0, 0}
--    1  noted: marker is what stands there now
--
-- Second delivery: finds the note of this life, and leaves it.
-- Called by: rlock/_driver/traffic.py when it meets a master without the note; rlock/procedures/guarding.py

local marker = KEYS[1]
local life, age_us, max_ttl_ms = ARGV[1], ARGV[2], ARGV[3]

local noted, since, longest = string.match(redis.call('get', marker) or '', '^(%S*) (%d+) (%d+)$')
if noted ~= life then
    -- Of another life: restored from a snapshot, or copied by a replica that was promoted.
    since, longest = nil, 0
end
if age_us == '' then
    since, longest = 0, 0
elseif not since then
    local time = redis.call('time')
    -- At least 1: a life may be said to last for ever, and 0 is the operator's word.
    since = math.max(1, time[1] * 1000000 + time[2] - age_us)
end
longest = math.max(tonumber(longest), tonumber(max_ttl_ms))
local note = string.format('%s %.0f %.0f', life, since, longest)
redis.call('set', marker, note)
return {1, note, 0, 0}
