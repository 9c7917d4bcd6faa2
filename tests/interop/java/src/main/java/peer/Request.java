package peer;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.util.ArrayList;
import java.util.List;

/** What is asked for, with defaults for what is not said. */
record Request(JsonObject asked) {
    String action() {
        return text("do");
    }

    String text(String key) {
        if (!asked.has(key)) {
            throw new IllegalArgumentException("the request lacks \"" + key + "\"");
        }
        return asked.get(key).getAsString();
    }

    String text(String key, String otherwise) {
        return asked.has(key) ? asked.get(key).getAsString() : otherwise;
    }

    long number(String key, long otherwise) {
        return asked.has(key) ? asked.get(key).getAsLong() : otherwise;
    }

    List<String> texts(String key) {
        List<String> found = new ArrayList<>();
        for (JsonElement element : asked.getAsJsonArray(key)) {
            found.add(element.getAsString());
        }
        return found;
    }
}
