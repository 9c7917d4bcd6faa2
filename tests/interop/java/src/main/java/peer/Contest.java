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
 * <p>Each has a journal of its own, in the format of tests/interop/journal.py: a JSON list a line, written with
 * one system call. Instants are System.nanoTime(). In each section the number in a file that all share is read
 * and, after hold_ms, written back one higher, with nothing but the lock to protect it.
 */
final class Contest {
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
        Path path = Path.of(request.text("folder"), worker + ".journal");
        try (FileChannel journal = FileChannel.open(
                        path, StandardOpenOption.CREATE, StandardOpenOption.WRITE, StandardOpenOption.APPEND);
                RandomAccessFile counter = new RandomAccessFile(request.text("counter"), "rw")) {
            Lock lock = masters.lock(request.text("kind", "plain"), request.text("name"));
            while (System.nanoTime() < until) {
                section(lock, journal, counter);
            }
            note(journal, "[\"end\"," + System.nanoTime() + "]");
        } catch (Exception error) {
            // A journal without its end tells it, and why is on stderr.
            error.printStackTrace();
            errors.incrementAndGet();
        }
    }

    private void section(Lock lock, FileChannel journal, RandomAccessFile counter) throws Exception {
        note(journal, "[\"ask\"," + System.nanoTime() + "]");
        try {
            lock.lock();
        } catch (RuntimeException error) {
            fault(journal, error);
            return;
        }
        long begin = System.nanoTime();
        long seen = read(counter);
        note(journal, "[\"got\"," + begin + "," + seen + "]");
        Thread.sleep(request.number("hold_ms", 1));
        counter.seek(0);
        counter.write(String.format("%08d", seen + 1).getBytes(StandardCharsets.US_ASCII));
        sections.incrementAndGet();
        note(journal, "[\"leave\"," + System.nanoTime() + "]");
        try {
            lock.unlock();
        } catch (RuntimeException error) {
            fault(journal, error);
            return;
        }
        note(journal, "[\"left\"," + System.nanoTime() + "]");
    }

    private void fault(FileChannel journal, RuntimeException error) throws Exception {
        errors.incrementAndGet();
        note(journal, "[\"fault\"," + System.nanoTime() + ",\"" + error.getClass().getSimpleName() + "\"]");
        // Masters that are all away must not make a busy loop of this.
        Thread.sleep(20);
    }

    private static long read(RandomAccessFile counter) throws IOException {
        byte[] digits = new byte[8];
        counter.seek(0);
        counter.readFully(digits);
        return Long.parseLong(new String(digits, StandardCharsets.US_ASCII));
    }

    private static void note(FileChannel journal, String line) throws IOException {
        journal.write(ByteBuffer.wrap((line + "\n").getBytes(StandardCharsets.UTF_8)));
    }
}
