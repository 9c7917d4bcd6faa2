-- status: read who holds the lock on this master, for how long, and who waits. Writes nothing.
--
-- KEYS[1] lock      hash   left out, with the queue: the caller only wants an answer
-- KEYS[2] queue     zset   waiters by ticket
-- KEYS[3] note      text   as in acquire.lua
-- KEYS[4] readers   zset   as in acquire.lua; left out if the caller does not list them
-- ARGV[1] last      rank   of the last waiter to list; 0 is the first, -1 all
--
-- Reply: {code, holder, count, ttl_ms, length, {waiter, ticket, waiter, ticket, ...}, note}, and behind the note,
-- if readers hold it, {reader, end of its lease in ms, ...}, the first 1000; count is their number then
--    1  held; ttl_ms is what is left of the lease (-1: no expiry)
--    0  absent: nobody holds it here
--   -2  the key is not a lock
--
-- Second delivery: reads again.

local lock, queue, note_key, readers = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local last = ARGV[1]

if not lock then
    return {0, '', 0, -2, 0, {}, ''}
end
local fields = redis.pcall('hlen', lock)
if type(fields) == 'table' and not string.find(fields.err, 'WRONGTYPE', 1, true) then
    return fields
end
-- Without it the client would believe `free` from a master that was flushed while the client was idle.
local note = note_key and redis.pcall('get', note_key) or ''
note = note.err and (string.find(note.err, 'WRONGTYPE', 1, true) and '' or error(note.err)) or note
local entry = fields == 1 and redis.call('hgetall', lock)
local held = entry and tonumber(entry[2])
if fields ~= 0 and not held then
    return {-2, '', 0, -1, 0, {}, note}
end

local length = redis.pcall('zcard', queue)
local waiters = redis.pcall('zrange', queue, 0, last, 'withscores')
if type(length) == 'table' or waiters.err then
    length, waiters = 0, {}
end
if fields == 0 then
    return {0, '', 0, -2, length, waiters, note}
end
if readers and entry[1] == 'readers:00000000000000000000000000000000' then
    local found = redis.call('zrange', readers, 0, -1, 'withscores')
    return {1, entry[1], #found / 2, redis.call('pttl', lock), length, waiters, note, {unpack(found, 1, 2000)}}
end
return {1, entry[1], held, redis.call('pttl', lock), length, waiters, note}
