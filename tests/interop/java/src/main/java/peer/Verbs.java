package peer;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;

/** What one thread does with one lock. */
final class Verbs {
    private final Masters masters;
    private final Request request;

    Verbs(Masters masters, Request request) {
        this.masters = masters;
        this.request = request;
    }

    Object perform() throws Exception {
        String kind = request.text("kind", "plain");
        String name = request.text("name");
        RLock lock = masters.lock(kind, name);
        long lease = request.number("lease_ms", -1);
        switch (request.action()) {
            case "lock":
                if (lease > 0) {
                    lock.lock(lease, TimeUnit.MILLISECONDS);
                } else {
                    lock.lock();
                }
                return null;
            case "trylock":
                long wait = request.number("wait_ms", 0);
                if (lease > 0) {
                    return lock.tryLock(wait, lease, TimeUnit.MILLISECONDS);
                }
                return wait > 0 ? lock.tryLock(wait, TimeUnit.MILLISECONDS) : lock.tryLock();
            case "unlock":
                lock.unlock();
                return null;
            case "force":
                List<Boolean> forced = new ArrayList<>();
                for (RLock one : masters.each(kind, name)) {
                    forced.add(one.forceUnlock());
                }
                return forced;
            case "status":
                // Of each master: a RedissonRedLock answers none of these questions.
                List<Object> told = new ArrayList<>();
                for (RLock one : masters.each(kind, name)) {
                    told.add(status(one));
                }
                return told;
            default:
                throw new IllegalArgumentException("no verb: " + request.action());
        }
    }

    private static Map<String, Object> status(RLock lock) {
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("locked", lock.isLocked());
        told.put("mine", lock.isHeldByCurrentThread());
        told.put("hold_count", lock.getHoldCount());
        told.put("ttl_ms", lock.remainTimeToLive());
        return told;
    }
}
