package contestant;

import com.google.gson.Gson;
import com.google.gson.JsonObject;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.LockSupport;

/** The requests, performed by threads; what follows each other is done by one thread, the owner of its locks. */
final class Loops {
    private static final Gson GSON = new Gson();

    private final Library library;
    private final Map<String, Lock> locks = new HashMap<>();

    Loops(Library library) {
        this.library = library;
    }

    /** The fields of a request; what it lacks has these values. */
    private static final class Asked {
        String lock;
        String prefix;
        int threads = 1;
        boolean own;
        boolean nested;
        double readers;
        int count;
        long hold_us;
        long start_ns;
        long stop_ns;
        long wait_ms = 10_000;
    }

    Map<String, ?> perform(String verb, JsonObject request) throws Exception {
        Asked asked = GSON.fromJson(request, Asked.class);
        switch (verb) {
            case "loop":
                return loop(asked);
            case "acquire":
                long from = System.nanoTime();
                boolean acquired = lock(asked.lock).tryLock(asked.wait_ms, TimeUnit.MILLISECONDS);
                return Map.of("acquired", acquired, "asked", from, "entered", System.nanoTime());
            case "release":
                long began = System.nanoTime();
                lock(asked.lock).unlock();
                return Map.of("began", began);
            case "hold":
                for (int i = 0; i < asked.count; i++) {
                    acquire(lock(asked.prefix + i), asked.wait_ms);
                }
                return Map.of();
            case "drop":
                for (int i = 0; i < asked.count; i++) {
                    locks.remove(asked.prefix + i).unlock();
                }
                return Map.of();
            default:
                throw new UnsupportedOperationException("no such request: " + verb);
        }
    }

    private Lock lock(String name) {
        return locks.computeIfAbsent(name, library::lock);
    }

    private static void acquire(Lock lock, long waitMs) throws InterruptedException, TimeoutException {
        if (waitMs < 0) {
            lock.lock();
        } else if (!lock.tryLock(waitMs, TimeUnit.MILLISECONDS)) {
            throw new TimeoutException("not acquired within " + waitMs + " ms");
        }
    }

    private Map<String, ?> loop(Asked asked) throws Exception {
        List<long[]> sections = Collections.synchronizedList(new ArrayList<>());
        List<String> errors = Collections.synchronizedList(new ArrayList<>());
        List<Thread> running = new ArrayList<>();
        if (asked.nested) {
            acquire(lock(asked.lock), asked.wait_ms);
        }
        for (int i = 0; i < asked.threads; i++) {
            int number = i;
            // The owner is the thread, so all of them may use one object; it is made before the clock starts.
            Lock lock = lock(asked.own ? asked.lock + i : asked.lock);
            Lock reader = asked.readers > 0 ? library.shared(asked.lock) : lock;
            Runnable turns = () -> turns(asked, number, lock, reader, sections, errors);
            if (asked.threads == 1) {
                turns.run(); // by the owner of what "acquire" and "nested" have got
            } else {
                running.add(new Thread(turns));
            }
        }
        running.forEach(Thread::start);
        for (Thread thread : running) {
            thread.join();
        }
        if (asked.nested) {
            lock(asked.lock).unlock();
        }
        return Map.of("sections", sections, "errors", errors);
    }

    private static void turns(
            Asked asked, int thread, Lock writer, Lock reader, List<long[]> sections, List<String> errors) {
        pause(asked.start_ns);
        for (int turn = 0; asked.count > 0 ? turn < asked.count : System.nanoTime() < asked.stop_ns; turn++) {
            boolean shared = ThreadLocalRandom.current().nextDouble() < asked.readers;
            Lock lock = shared ? reader : writer;
            long from = System.nanoTime();
            try {
                acquire(lock, asked.wait_ms);
                long entered = System.nanoTime();
                pause(asked.hold_us > 0 ? entered + TimeUnit.MICROSECONDS.toNanos(asked.hold_us) : 0);
                long left = System.nanoTime();
                long[] section = shared ? new long[] {thread, from, entered, left, 0, 1} : new long[] {thread, from, entered, left, 0};
                sections.add(section); // before a release that may fail
                lock.unlock();
                section[4] = System.nanoTime();
            } catch (Exception error) {
                errors.add(Main.told(error));
            }
        }
    }

    /** Thread.sleep counts in whole milliseconds before Java 21. */
    private static void pause(long until) {
        for (long left; (left = until - System.nanoTime()) > 0; ) {
            LockSupport.parkNanos(left);
        }
    }
}
