package contestant;

import io.netty.channel.nio.NioEventLoopGroup;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Lock;
import org.redisson.Redisson;
import org.redisson.RedissonRedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.RedisConnectionException;
import org.redisson.config.Config;

/**
 * Redisson, with a client for each master that its lock knows: of the first one for RLock and RFairLock, of all for
 * RedissonRedLock.
 *
 * <p>At its defaults, but for the ttl: that is the lock watchdog's timeout, so that a lock is renewed while it is held,
 * as it is when no lease time is said. The clients of a RedissonRedLock share their event loops and their executor, as
 * the reference guide has it for several clients in one process; with one client, and with five, there are 32 and 16
 * threads at the most.
 */
final class Library {
    /** Redisson's defaults, of each client that makes its own. */
    private static final int EVENT_LOOPS = 32;

    private static final int EXECUTOR_THREADS = 16;

    /** Of the warm-up, first without and then with somebody who has it: as many pairs, or as long, as comes first. */
    private static final int WARM_PAIRS = 2_000;

    private static final int WARM_CONTENDED_PAIRS = 500;

    private final String kind;
    private final List<RedissonClient> clients = new ArrayList<>();

    Library(String kind, List<String> masters, long ttlMs) {
        this.kind = kind;
        List<String> known = kind.equals("redlock") ? masters : masters.subList(0, 1);
        NioEventLoopGroup loops = new NioEventLoopGroup(EVENT_LOOPS);
        ExecutorService executor = Executors.newFixedThreadPool(EXECUTOR_THREADS);
        int away = 0;
        for (String url : known) {
            try {
                clients.add(Redisson.create(config(url, ttlMs, loops, executor)));
            } catch (RedisConnectionException error) {
                // A minority may be away: such a client connects when it is needed first.
                if (2 * ++away >= known.size()) {
                    throw error;
                }
                clients.add(Redisson.create(config(url, ttlMs, loops, executor).setLazyInitialization(true)));
            }
        }
    }

    String version() {
        return RedissonClient.class.getPackage().getImplementationVersion();
    }

    /** Whoever asks for it: its owner is the thread that acquires it. */
    Lock lock(String name) {
        return switch (kind) {
            case "rlock" -> clients.get(0).getLock(name);
            case "fairlock" -> clients.get(0).getFairLock(name);
            case "redlock" -> redLock(name);
            case "rwlock" -> clients.get(0).getReadWriteLock(name).writeLock();
            default -> throw new IllegalArgumentException("no such adapter: " + kind);
        };
    }

    /** The reader whose writer is {@link #lock}. */
    Lock shared(String name) {
        if (!kind.equals("rwlock")) {
            throw new UnsupportedOperationException("it has no readers");
        }
        return clients.get(0).getReadWriteLock(name).readLock();
    }

    @SuppressWarnings("deprecation") // by Redisson, in favour of the other two; it is still there
    private Lock redLock(String name) {
        return new RedissonRedLock(clients.stream().map(client -> client.getLock(name)).toArray(RLock[]::new));
    }

    /**
     * A JVM interprets what it has not compiled yet, and the harness' few hundred pairs are not enough for its compilers:
     * a lock of its own is acquired and released here until they are done with most of it. Waiting is other code than
     * not waiting, so two threads do the same.
     */
    void warmUp(long limitMs) throws InterruptedException {
        String name = "warm-up:" + UUID.randomUUID();
        warm(name, WARM_PAIRS, limitMs);
        Thread other = new Thread(() -> warm(name, WARM_CONTENDED_PAIRS, limitMs));
        other.start();
        warm(name, WARM_CONTENDED_PAIRS, limitMs);
        other.join();
    }

    private void warm(String name, int pairs, long limitMs) {
        Lock lock = lock(name);
        long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(limitMs);
        try {
            for (int pair = 0; pair < pairs && System.nanoTime() < until; pair++) {
                if (lock.tryLock(1, TimeUnit.SECONDS)) {
                    lock.unlock();
                }
            }
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        } catch (RuntimeException error) {
            // What does not work is the measurement's to show.
            error.printStackTrace();
        }
    }

    private static Config config(String url, long ttlMs, NioEventLoopGroup loops, ExecutorService executor) {
        Config config = new Config();
        config.setEventLoopGroup(loops);
        config.setExecutor(executor);
        config.setLockWatchdogTimeout(ttlMs);
        if (!url.startsWith("redis+sentinel:")) {
            config.useSingleServer().setAddress(url);
            return config;
        }
        String[] parts = url.split("://:|[@/]");
        var group = config.useSentinelServers().setPassword(parts[1]).setMasterName(parts[3]);
        for (String sentinel : parts[2].split(",")) {
            group.addSentinelAddress("redis://" + sentinel);
        }
        return config;
    }
}
