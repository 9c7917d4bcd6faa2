package peer;

import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Lock;
import org.redisson.Redisson;
import org.redisson.RedissonRedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import org.redisson.config.SingleServerConfig;

/** One RedissonClient for each master: with one its lock is an RLock, with more a RedissonRedLock of all. */
final class Masters {
    /** Of a Redisson whose lease cannot be set, and the default of those where it can. */
    private static final long FIXED_LEASE_MS = 30_000;

    private final List<RedissonClient> clients = new ArrayList<>();
    private final List<String> ids = new ArrayList<>();
    private long leaseMs;

    Masters(Request request) {
        try {
            for (String url : request.texts("urls")) {
                RedissonClient client = Redisson.create(config(url, request));
                clients.add(client);
                ids.add(idOf(client));
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

    Lock lock(String kind, String name) {
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
            // Later than the oldest Redisson that this is to be built with.
            case "fenced" -> (RLock) call(client, RedissonClient.class, "getFencedLock", name);
            case "spin" -> (RLock) call(client, RedissonClient.class, "getSpinLock", name);
            default -> throw new IllegalArgumentException("no kind of lock: " + kind);
        };
    }

    private Config config(String url, Request request) {
        Config config = new Config();
        // Two per processor are the default, for each master.
        config.setThreads(2);
        config.setNettyThreads(2);
        leaseMs = request.number("watchdog_ms", FIXED_LEASE_MS);
        if (!set(config, "setLockWatchdogTimeout", long.class, leaseMs)) {
            leaseMs = FIXED_LEASE_MS;
        }
        set(config, "setLazyInitialization", boolean.class, request.flag("lazy", false));
        SingleServerConfig server = config.useSingleServer();
        // Before 3.5 an address was host:port, with a scheme nothing is found.
        server.setAddress(request.flag("schemes", true) ? url : url.replaceFirst("^redis://", ""));
        server.setConnectionMinimumIdleSize(2);
        server.setConnectionPoolSize(16);
        server.setSubscriptionConnectionMinimumIdleSize(1);
        server.setSubscriptionConnectionPoolSize(8);
        server.setConnectTimeout((int) request.number("connect_ms", 1000));
        server.setTimeout((int) request.number("timeout_ms", 1000));
        server.setRetryAttempts((int) request.number("retries", 1));
        // Older than its successor, setRetryDelay, and still there in 4.7.
        set(server, "setRetryInterval", int.class, (int) request.number("retry_ms", 200));
        return config;
    }

    private static String idOf(RedissonClient client) {
        try {
            return (String) client.getClass().getMethod("getId").invoke(client);
        } catch (ReflectiveOperationException error) {
            return idInside(client);
        }
    }

    /** Of a Redisson that keeps it to itself: its locks have it. Asks no master. */
    private static String idInside(RedissonClient client) {
        Object lock = client.getLock("any");
        for (Class<?> kind = lock.getClass(); kind != null; kind = kind.getSuperclass()) {
            try {
                Field id = kind.getDeclaredField("id");
                id.setAccessible(true);
                return id.get(lock).toString();
            } catch (ReflectiveOperationException error) {
                // Its parent may have it.
            }
        }
        throw new UnsupportedOperationException("this Redisson does not tell its id");
    }

    private static Object call(Object on, Class<?> of, String method, String argument) {
        try {
            return of.getMethod(method, String.class).invoke(on, argument);
        } catch (InvocationTargetException error) {
            throw new IllegalStateException(error.getCause());
        } catch (ReflectiveOperationException error) {
            throw new UnsupportedOperationException("this Redisson has no " + method);
        }
    }

    /** Whether this Redisson has the setting; without it, it goes by its default. */
    private static boolean set(Object on, String setter, Class<?> kind, Object value) {
        try {
            Method method = on.getClass().getMethod(setter, kind);
            method.invoke(on, value);
            return true;
        } catch (ReflectiveOperationException error) {
            return false;
        }
    }
}
