package contestant;

import com.google.gson.Gson;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/**
 * The worker of a Java contestant: reads requests, runs them with one kind of lock, writes replies.
 *
 * <p>{@code contestant.Main rlock|fairlock|redlock|rwlock}. The protocol: bench/contestants/README.md. System.nanoTime() is CLOCK_MONOTONIC
 * on Linux.
 */
public final class Main {
    /** Of each of the two parts of the warm-up at the most; an "open" may say another time as "warm_ms". */
    private static final long WARM_MS = 2_000;

    private final String kind;
    private Loops loops;

    private Main(String kind) {
        this.kind = kind;
    }

    public static void main(String[] arguments) throws InterruptedException {
        // What libraries print is not ours to answer with.
        PrintStream replies = System.out;
        System.setOut(System.err);
        Main main = new Main(arguments.length > 0 ? arguments[0] : "rlock");
        Gson gson = new Gson();
        BlockingQueue<String> lines = new LinkedBlockingQueue<>();
        new Thread(() -> read(lines), "requests").start();
        while (true) {
            JsonObject request = JsonParser.parseString(lines.take()).getAsJsonObject();
            replies.println(gson.toJson(main.reply(request)));
            replies.flush();
        }
    }

    /** Ends the process with its input: who asks is gone, and what is being done may wait for a lock for long. */
    private static void read(BlockingQueue<String> lines) {
        try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line; (line = in.readLine()) != null; ) {
                lines.add(line);
            }
        } catch (IOException error) {
            error.printStackTrace();
        }
        Runtime.getRuntime().halt(0);
    }

    private Map<String, Object> reply(JsonObject request) {
        Map<String, Object> reply = new LinkedHashMap<>();
        try {
            Map<String, ?> result = perform(request);
            reply.put("ok", true);
            reply.putAll(result);
        } catch (UnsupportedOperationException why) {
            reply.put("ok", false);
            reply.put("unsupported", String.valueOf(why.getMessage()));
        } catch (Exception | LinkageError error) {
            error.printStackTrace();
            reply.put("ok", false);
            reply.put("error", told(error));
        }
        return reply;
    }

    private Map<String, ?> perform(JsonObject request) throws Exception {
        String verb = request.get("do").getAsString();
        if (verb.equals("open")) {
            List<String> masters = new ArrayList<>();
            request.getAsJsonArray("masters").forEach(url -> masters.add(url.getAsString()));
            Library library = new Library(kind, masters, request.get("ttl_ms").getAsLong());
            library.warmUp(request.has("warm_ms") ? request.get("warm_ms").getAsLong() : WARM_MS);
            loops = new Loops(library);
            String runtime = "Java " + Runtime.version().feature() + " (" + System.getProperty("java.vm.name") + ")";
            return Map.of("version", library.version(), "runtime", runtime);
        }
        if (loops == null) {
            throw new IllegalStateException("not opened");
        }
        return loops.perform(verb, request);
    }

    /** "Kind: message" in one line. */
    static String told(Throwable error) {
        String message = String.valueOf(error.getMessage()).replace('\n', ' ');
        String text = error.getClass().getSimpleName() + ": " + message;
        return text.substring(0, Math.min(text.length(), 300));
    }
}
