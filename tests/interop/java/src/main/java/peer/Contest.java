package peer;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.Lock;

/**
 * Threads that want one lock again and again, and note each of their sections.
 *
 * <p>Each has a journal of its own, in the format of rlock/testing/contention/journal.py, a line with one system
 * call. clock_ns is added to System.nanoTime(): the journals have another clock. In each section the first number
 * of the counter that all share is read and, after hold_ms, written back one higher. Only the lock protects it.
 */
final class Contest {
    /** Of each number of a counter, as in rlock/testing/contention/counter.py. */
    private static final int DIGITS = 20;

    private final Masters masters;
    private final Request request;
    private final AtomicLong sections = new AtomicLong();
    private final AtomicLong errors = new AtomicLong();

    Contest(Masters masters, Request request) {
        this.masters = masters;
        this.request = request;
    }

    Object run() throws Exception {
        long until = System.nanoTime() + (long) (request.number("ms", 1000) * 1e6);
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < request.number("threads", 1); i++) {
            String worker = request.text("label") + "-" + i;
            Thread thread = new Thread(() -> work(worker, until), worker);
            thread.setDaemon(true);
            threads.add(thread);
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("sections", sections.get());
        told.put("errors", errors.get());
        return told;
    }

    private void work(String worker, long until) {
        Path path = Path.of(request.text("folder"), worker + ".jsonl");
        try (FileChannel journal = FileChannel.open(
                        path, StandardOpenOption.CREATE, StandardOpenOption.WRITE, StandardOpenOption.APPEND);
                RandomAccessFile counter = new RandomAccessFile(request.text("counter"), "rw")) {
            Lock lock = masters.lock(request.text("kind", "plain"), request.text("name"));
            for (int attempt = 1; System.nanoTime() < until; attempt++) {
                section(attempt, lock, journal, counter);
            }
            note(journal, "end", 0, "");
        } catch (Exception error) {
            // A journal without its end tells it, and why is on stderr.
            error.printStackTrace();
            errors.incrementAndGet();
        }
    }

    private void section(int attempt, Lock lock, FileChannel journal, RandomAccessFile counter) throws Exception {
        note(journal, "acquire", attempt, ",\"thread\":\"main\",\"lock\":\"" + request.text("name") + "\"");
        try {
            lock.lock();
        } catch (RuntimeException error) {
            failed(attempt, journal, error);
            return;
        }
        note(journal, "acquired", attempt, ",\"hold_count\":1");
        long seen = read(counter);
        Thread.sleep(request.number("hold_ms", 1));
        counter.seek(0);
        counter.write(String.format("%0" + DIGITS + "d", seen + 1).getBytes(StandardCharsets.US_ASCII));
        sections.incrementAndGet();
        note(journal, "release", attempt, ",\"hold_count\":1");
        try {
            lock.unlock();
        } catch (RuntimeException error) {
            failed(attempt, journal, error);
            return;
        }
        note(journal, "released", attempt, ",\"hold_count\":0,\"outcome\":\"released\"");
        note(journal, "done", attempt, ",\"outcome\":\"got\"");
    }

    private void failed(int attempt, FileChannel journal, RuntimeException error) throws Exception {
        errors.incrementAndGet();
        String name = error.getClass().getSimpleName();
        note(journal, "done", attempt, ",\"outcome\":\"error\",\"error\":\"" + name + "\"");
        // Masters that are all away must not make a busy loop of this.
        Thread.sleep(20);
    }

    private static long read(RandomAccessFile counter) throws IOException {
        byte[] digits = new byte[DIGITS];
        counter.seek(0);
        counter.readFully(digits);
        return Long.parseLong(new String(digits, StandardCharsets.US_ASCII));
    }

    private void note(FileChannel journal, String event, int attempt, String more) throws IOException {
        long at = System.nanoTime() + request.number("clock_ns", 0);
        String line = String.format("{\"event\":\"%s\",\"at\":%d,\"attempt\":%d%s}%n", event, at, attempt, more);
        journal.write(ByteBuffer.wrap(line.getBytes(StandardCharsets.UTF_8)));
    }
}
