import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.Lock;
import org.redisson.Redisson;
import org.redisson.RedissonRedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import org.redisson.config.SingleServerConfig;

/**
 * Threads that want one lock of Redisson again and again: Contest FOLDER COUNTER LOCK LABEL THREADS MS CLOCK_NS URL...
 *
 * <p>It says "ready", begins with the first line of stdin, and ends after MS. Each thread has a journal in the format
 * of rlock/testing/contention/journal.py. CLOCK_NS is added to System.nanoTime(): the journals have another clock. In
 * each section the first number of the counter is read and, after a millisecond, written back one higher.
 */
public final class Contest {
    /** Of each number of a counter, as in rlock/testing/contention/counter.py. */
    private static final int DIGITS = 20;

    private static Path folder;
    private static String counterPath;
    private static String name;
    private static long clockNs;
    private static final List<RedissonClient> clients = new ArrayList<>();

    public static void main(String[] words) throws Exception {
        folder = Path.of(words[0]);
        counterPath = words[1];
        name = words[2];
        clockNs = Long.parseLong(words[6]);
        for (String url : List.of(words).subList(7, words.length)) {
            clients.add(connect(url));
        }
        System.out.println("ready");
        if (System.in.read() >= 0) {
            contend(words[3], Integer.parseInt(words[4]), Long.parseLong(words[5]));
        }
        // Threads of Redisson must not keep the process.
        Runtime.getRuntime().halt(0);
    }

    private static RedissonClient connect(String url) {
        Config config = new Config();
        config.setLockWatchdogTimeout(3000);
        SingleServerConfig server = config.useSingleServer().setAddress(url);
        // A dead master refuses at once, and costs each call a second and not a minute.
        server.setConnectTimeout(10_000).setTimeout(500).setRetryAttempts(1);
        server.setRetryDelay(attempt -> Duration.ofMillis(200));
        return Redisson.create(config);
    }

    private static Lock lock() {
        RLock[] locks = clients.stream().map(client -> client.getLock(name)).toArray(RLock[]::new);
        return locks.length == 1 ? locks[0] : new RedissonRedLock(locks);
    }

    private static void contend(String label, int count, long ms) throws InterruptedException {
        long until = System.nanoTime() + ms * 1_000_000;
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            Path journal = folder.resolve(label + "-" + i + ".jsonl");
            threads.add(new Thread(() -> work(journal, until)));
        }
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private static void work(Path path, long until) {
        try (FileChannel journal = FileChannel.open(path, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
                RandomAccessFile counter = new RandomAccessFile(counterPath, "rw")) {
            Lock lock = lock();
            for (int attempt = 1; System.nanoTime() < until; attempt++) {
                section(attempt, lock, journal, counter);
            }
            note(journal, "end", 0, "");
        } catch (Exception error) {
            // The journal has no "end": the test notices.
            error.printStackTrace();
        }
    }

    private static void section(int attempt, Lock lock, FileChannel journal, RandomAccessFile counter)
            throws Exception {
        note(journal, "acquire", attempt, ",\"thread\":\"main\",\"lock\":\"" + name + "\"");
        String outcome = "\"got\"";
        try {
            lock.lock();
            note(journal, "acquired", attempt, ",\"hold_count\":1");
            byte[] digits = new byte[DIGITS];
            counter.seek(0);
            counter.readFully(digits);
            Thread.sleep(1);
            long next = Long.parseLong(new String(digits, StandardCharsets.US_ASCII)) + 1;
            counter.seek(0);
            counter.write(String.format("%0" + DIGITS + "d", next).getBytes(StandardCharsets.US_ASCII));
            note(journal, "release", attempt, ",\"hold_count\":1");
            lock.unlock();
        } catch (RuntimeException error) {
            outcome = "\"error\",\"error\":\"" + error.getClass().getSimpleName() + "\"";
        }
        note(journal, "done", attempt, ",\"outcome\":" + outcome);
    }

    private static void note(FileChannel journal, String event, int attempt, String more) throws Exception {
        long at = System.nanoTime() + clockNs;
        String line = String.format("{\"event\":\"%s\",\"at\":%d,\"attempt\":%d%s}%n", event, at, attempt, more);
        journal.write(ByteBuffer.wrap(line.getBytes(StandardCharsets.UTF_8)));
    }
}
