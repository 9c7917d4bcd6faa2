package peer;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * Redisson, spoken to over stdin and stdout: one JSON object a line.
 *
 * <p>A request has an id, what to do, and mostly a thread: {"id": 1, "do": "lock", "thread": "a", "name": "x"}.
 * Each named thread exists once and does what it is told one after another; without a thread the reader does
 * it. An answer has the id, and "ok" with a result or "error" with the class and "message". "at" is
 * System.nanoTime() when it was known: on Linux that is CLOCK_MONOTONIC, which Python's time.monotonic_ns()
 * reads too. The end of stdin ends the process, or a test that died would leave it behind.
 */
public final class Main {
    private static final Gson GSON = new GsonBuilder().serializeNulls().disableHtmlEscaping().create();

    private final Map<String, Masters> clients = new ConcurrentHashMap<>();
    private final Map<String, ExecutorService> threads = new ConcurrentHashMap<>();
    private final PrintStream out;

    private Main(PrintStream out) {
        this.out = out;
    }

    public static void main(String[] args) throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
        // Whatever a library prints must not stand between two answers.
        System.setOut(System.err);
        new Main(answers).serve();
    }

    private void serve() throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonObject asked = JsonParser.parseString(line).getAsJsonObject();
            Request request = new Request(asked);
            if (request.action().equals("quit")) {
                clients.values().forEach(Masters::close);
                answer(request, () -> null);
                break;
            }
            if (asked.has("thread")) {
                thread(request.text("thread")).execute(() -> answer(request, () -> perform(request)));
            } else {
                answer(request, () -> perform(request));
            }
        }
        // Not exit: a thread that still waits for a lock, or a hook of Redisson's, must not keep the process.
        Runtime.getRuntime().halt(0);
    }

    private ExecutorService thread(String name) {
        return threads.computeIfAbsent(
                name, n -> Executors.newSingleThreadExecutor(work -> {
                    Thread thread = new Thread(work, n);
                    thread.setDaemon(true);
                    return thread;
                }));
    }

    private void answer(Request request, Callable<Object> work) {
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("id", request.number("id", -1));
        try {
            told.put("ok", work.call());
        } catch (Throwable error) {
            Throwable cause = error;
            while (cause instanceof CompletionException && cause.getCause() != null) {
                cause = cause.getCause();
            }
            told.put("error", cause.getClass().getSimpleName());
            told.put("message", String.valueOf(cause.getMessage()));
        }
        told.put("at", System.nanoTime());
        String line = GSON.toJson(told);
        synchronized (out) {
            out.println(line);
            out.flush();
        }
    }

    private Object perform(Request request) throws Exception {
        switch (request.action()) {
            case "hello":
                return hello();
            case "clock":
                return System.nanoTime();
            case "client":
                Masters made = new Masters(request);
                Masters before = clients.put(request.text("client"), made);
                if (before != null) {
                    before.close();
                }
                return made.told();
            case "close":
                Masters closed = clients.remove(request.text("client"));
                if (closed != null) {
                    closed.close();
                }
                return null;
            case "thread":
                return Thread.currentThread().getId();
            case "contend":
                return new Contest(masters(request), request).run();
            default:
                return new Verbs(masters(request), request).perform();
        }
    }

    private Masters masters(Request request) {
        Masters found = clients.get(request.text("client"));
        if (found == null) {
            throw new IllegalArgumentException("no client " + request.text("client") + ": make it first");
        }
        return found;
    }

    private static Object hello() {
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("pid", ProcessHandle.current().pid());
        told.put("java", System.getProperty("java.version"));
        told.put("nanos", System.nanoTime());
        return told;
    }
}
