package shipper.redact;

import java.util.ArrayList;
import java.util.List;

/**
 * A text in parts: what rules have put in, and what is left of the record in between. The next rule searches each of the latter by itself, as if nothing stood beside
 * it: half a hash may look like the number of a card.
 */
final class Draft {
    /** By turns: of the record, put in. */
    private final List<CharSequence> parts = new ArrayList<>(1);

    int size() {
        return parts.size();
    }

    String part(int i) {
        return parts.get(i).toString();
    }

    boolean isPutIn(int i) {
        return i % 2 == 1;
    }

    /** Appends some of the record. */
    Draft keep(String text) {
        return append(text, false);
    }

    /** Appends what a rule puts in. */
    Draft put(String text) {
        return append(text, true);
    }

    private Draft append(String text, boolean putIn) {
        int last = parts.size() - 1;
        if (text.isEmpty() && last >= 0) {
            return this;
        }
        if (last >= 0 && isPutIn(last) == putIn) {
            StringBuilder more = parts.get(last) instanceof StringBuilder begun ? begun : new StringBuilder(parts.get(last));
            parts.set(last, more.append(text));
            return this;
        }
        if (last < 0 && putIn) {
            parts.add("");
        }
        parts.add(text);
        return this;
    }

    String text() {
        return String.join("", parts);
    }
}
