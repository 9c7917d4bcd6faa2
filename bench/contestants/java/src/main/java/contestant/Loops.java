package contestant;

import com.google.gson.JsonObject;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.LockSupport;

/** The requests, performed by threads; what follows each other is done by one thread, the owner of its locks. */
final class Loops {
    /** How long one acquire may wait, unless the request says. */
    private static final long PATIENCE_MS = 10_000;

    private final Library library;
    private final Map<String, Lock> locks = new HashMap<>();

    Loops(Library library) {
        this.library = library;
    }

    Map<String, ?> perform(JsonObject request) throws Exception {
        Asked asked = new Asked(request);
        switch (asked.text("do")) {
            case "pairs":
                return pairs(lock(asked.text("lock")), asked.count("count"));
            case "nested":
                return nested(lock(asked.text("lock")), asked.count("count"));
            case "throughput":
                return throughput(asked);
            case "contend":
                return contend(asked);
            case "acquire":
                long from = System.nanoTime();
                boolean acquired = lock(asked.text("lock")).tryLock(asked.number("wait_ms"), TimeUnit.MILLISECONDS);
                return Map.of("acquired", acquired, "asked", from, "entered", System.nanoTime());
            case "release":
                long began = System.nanoTime();
                lock(asked.text("lock")).unlock();
                return Map.of("began", began, "ended", System.nanoTime());
            case "wait":
                for (int i = 0; i < asked.count("threads"); i++) {
                    start(() -> library.lock(asked.text("lock")).lock());
                }
                return Map.of("waiting", asked.count("threads"));
            case "hold":
                for (int i = 0; i < asked.count("count"); i++) {
                    acquire(lock(asked.text("prefix") + i), PATIENCE_MS);
                }
                return Map.of("acquired", asked.count("count"));
            case "drop":
                for (int i = 0; i < asked.count("count"); i++) {
                    locks.remove(asked.text("prefix") + i).unlock();
                }
                return Map.of("released", asked.count("count"));
            default:
                throw new UnsupportedOperationException("no such request: " + asked.text("do"));
        }
    }

    private Lock lock(String name) {
        return locks.computeIfAbsent(name, library::lock);
    }

    private static void acquire(Lock lock, long waitMs) throws InterruptedException, TimeoutException {
        if (!lock.tryLock(waitMs, TimeUnit.MILLISECONDS)) {
            throw new TimeoutException("not acquired within " + waitMs + " ms");
        }
    }

    private static Map<String, ?> pairs(Lock lock, int count) {
        List<Long> took = new ArrayList<>(count);
        List<String> errors = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            long began = System.nanoTime();
            try {
                acquire(lock, PATIENCE_MS);
                lock.unlock();
            } catch (Exception error) {
                errors.add(Main.told(error));
                continue;
            }
            took.add(System.nanoTime() - began);
        }
        return Map.of("ns", took, "errors", errors);
    }

    private static Map<String, ?> nested(Lock lock, int count) throws Exception {
        acquire(lock, PATIENCE_MS);
        try {
            return pairs(lock, count);
        } finally {
            lock.unlock();
        }
    }

    private Map<String, ?> throughput(Asked asked) throws InterruptedException {
        LongAdder done = new LongAdder();
        List<String> errors = Collections.synchronizedList(new ArrayList<>());
        long began = System.nanoTime();
        long until = began + Math.round(asked.fraction("seconds") * 1e9);
        together(asked.count("threads"), i -> {
            Lock lock = library.lock(asked.text("prefix") + i);
            try {
                while (System.nanoTime() < until) {
                    acquire(lock, PATIENCE_MS);
                    lock.unlock();
                    done.increment();
                }
            } catch (Exception error) {
                errors.add(Main.told(error));
            }
        });
        return Map.of("pairs", done.sum(), "ns", System.nanoTime() - began, "errors", errors);
    }

    private Map<String, ?> contend(Asked asked) throws InterruptedException {
        List<long[]> sections = Collections.synchronizedList(new ArrayList<>());
        List<String> errors = Collections.synchronizedList(new ArrayList<>());
        long stop = asked.number("stop_ns");
        long wait = asked.request.has("wait_ms") ? asked.number("wait_ms") : PATIENCE_MS;
        long held = TimeUnit.MICROSECONDS.toNanos(asked.number("hold_us"));
        together(asked.count("threads"), i -> {
            Lock lock = library.lock(asked.text("lock"));
            TimeUnit.NANOSECONDS.sleep(asked.number("start_ns") - System.nanoTime());
            for (long from; (from = System.nanoTime()) < stop; ) {
                try {
                    acquire(lock, wait);
                    long entered = System.nanoTime();
                    pause(entered + held);
                    long left = System.nanoTime();
                    sections.add(new long[] {i, from, entered, left});
                    lock.unlock();
                } catch (Exception error) {
                    errors.add(Main.told(error));
                }
            }
        });
        return Map.of("sections", sections, "errors", errors);
    }

    /** Thread.sleep counts in whole milliseconds before Java 21. */
    private static void pause(long until) throws InterruptedException {
        for (long left; (left = until - System.nanoTime()) > 0; ) {
            LockSupport.parkNanos(left);
        }
    }

    private interface Loop {
        void run(int i) throws InterruptedException;
    }

    private static Thread start(Runnable loop) {
        Thread thread = new Thread(loop);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    private static void together(int threads, Loop loop) throws InterruptedException {
        List<Thread> running = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            int number = i;
            running.add(start(() -> {
                try {
                    loop.run(number);
                } catch (InterruptedException error) {
                    Thread.currentThread().interrupt();
                }
            }));
        }
        for (Thread thread : running) {
            thread.join();
        }
    }

    /** The fields of a request. */
    private record Asked(JsonObject request) {
        String text(String key) {
            return request.get(key).getAsString();
        }

        int count(String key) {
            return request.get(key).getAsInt();
        }

        long number(String key) {
            return request.get(key).getAsLong();
        }

        double fraction(String key) {
            return request.get(key).getAsDouble();
        }
    }
}
