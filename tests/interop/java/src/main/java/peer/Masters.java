package peer;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.RedissonRedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import org.redisson.config.SingleServerConfig;

/** One RedissonClient for each master: with one its lock is an RLock, with more a RedissonRedLock of all. */
final class Masters {
    private static final long DEFAULT_LEASE_MS = 30_000;

    private final List<RedissonClient> clients = new ArrayList<>();
    private final List<String> ids = new ArrayList<>();
    private long leaseMs;

    Masters(Request request) {
        try {
            for (String url : request.texts("urls")) {
                RedissonClient client = Redisson.create(config(url, request));
                clients.add(client);
                ids.add(client.getId());
            }
        } catch (RuntimeException | Error error) {
            // One that cannot be reached: the threads and connections of the others must not stay.
            close();
            throw error;
        }
    }

    /** What owner tokens begin with, one for each master, and the lease that a watchdog renews. */
    Map<String, Object> told() {
        return Map.of("ids", ids, "lease_ms", leaseMs);
    }

    RLock lock(String kind, String name) {
        if (clients.size() == 1) {
            return lock(clients.get(0), kind, name);
        }
        return new RedissonRedLock(each(kind, name).toArray(new RLock[0]));
    }

    List<RLock> each(String kind, String name) {
        List<RLock> locks = new ArrayList<>();
        for (RedissonClient client : clients) {
            locks.add(lock(client, kind, name));
        }
        return locks;
    }

    void close() {
        for (RedissonClient client : clients) {
            client.shutdown(0, 2, TimeUnit.SECONDS);
        }
    }

    private static RLock lock(RedissonClient client, String kind, String name) {
        return switch (kind) {
            case "plain" -> client.getLock(name);
            case "fair" -> client.getFairLock(name);
            case "read" -> client.getReadWriteLock(name).readLock();
            case "write" -> client.getReadWriteLock(name).writeLock();
            case "fenced" -> client.getFencedLock(name);
            case "spin" -> client.getSpinLock(name);
            default -> throw new IllegalArgumentException("no kind of lock: " + kind);
        };
    }

    private Config config(String url, Request request) {
        Config config = new Config();
        // Two per processor are the default, for each master.
        config.setThreads(2);
        config.setNettyThreads(2);
        leaseMs = request.number("watchdog_ms", DEFAULT_LEASE_MS);
        config.setLockWatchdogTimeout(leaseMs);
        SingleServerConfig server = config.useSingleServer();
        server.setAddress(url);
        server.setConnectionMinimumIdleSize(2);
        server.setConnectionPoolSize(16);
        server.setSubscriptionConnectionMinimumIdleSize(1);
        server.setSubscriptionConnectionPoolSize(8);
        server.setConnectTimeout((int) request.number("connect_ms", 1000));
        server.setTimeout((int) request.number("timeout_ms", 1000));
        server.setRetryAttempts((int) request.number("retries", 1));
        int retryMs = (int) request.number("retry_ms", 200);
        server.setRetryDelay(attempt -> Duration.ofMillis(retryMs));
        return config;
    }
}
