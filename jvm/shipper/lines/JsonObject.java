package shipper.lines;

import java.util.BitSet;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;

/**
 * Says why a text is no JSON object: the grammar of RFC 8259, which allows names that stand twice, halves of surrogate pairs, and any depth and length. Bytes beyond
 * ASCII are not looked at. One pass, without recursion; memory is a bit for each level.
 */
public final class JsonObject implements UDF1<byte[], String> {
    /** Name of the function in SQL: shipper/config/content_checks.py calls it. */
    private static final String NAME = "json_fault";
    /** In place of a position behind a value. */
    private static final int CUT_OFF = -1;

    /** Makes the function known to the session's SQL. */
    static void register(SparkSession spark) {
        spark.udf().register(NAME, new JsonObject(), DataTypes.StringType);
    }

    /** Reason why each text is no JSON object; null if it is one. */
    public static Column fault(Column bytes) {
        return functions.udf((UDF1<byte[], String>) new JsonObject(), DataTypes.StringType).withName(NAME).apply(bytes);
    }

    @Override
    public String call(byte[] text) {
        int start = text == null ? 0 : blanks(text, 0);
        if (text == null || start == text.length || text[start] != '{') {
            return "not an object";
        }
        int end = value(text, start);
        if (end == CUT_OFF) {
            return "cut off at byte " + text.length;
        }
        if (end < 0) {
            return "no JSON at byte " + -end;
        }
        int behind = blanks(text, end);
        return behind < text.length ? "text after the object, at byte " + (behind + 1) : null;
    }

    /** Place behind the value that begins at `at`; CUT_OFF, or the negative number of the byte that does not belong there. */
    private static int value(byte[] text, int at) {
        BitSet objects = new BitSet(); // what is open, a bit for each: set for an object
        int depth = 0;
        while (true) {
            int one = at < text.length ? text[at] : CUT_OFF;
            if (one == '{' || one == '[') {
                objects.set(depth++, one == '{');
                at = blanks(text, at + 1);
                boolean empty = at < text.length && text[at] == (one == '{' ? '}' : ']');
                if (!empty) {
                    at = one == '{' ? name(text, at) : at;
                    if (at < 0) {
                        return at;
                    }
                    continue;
                }
            } else {
                at = scalar(text, at);
                if (at < 0) {
                    return at;
                }
                at = blanks(text, at);
            }
            // Behind a value, or in front of the bracket that closes an empty one.
            while (at < text.length && text[at] == (objects.get(depth - 1) ? '}' : ']')) {
                if (--depth == 0) {
                    return at + 1;
                }
                at = blanks(text, at + 1);
            }
            if (at == text.length) {
                return CUT_OFF;
            }
            if (text[at] != ',') {
                return wrong(at);
            }
            at = blanks(text, at + 1);
            at = objects.get(depth - 1) ? name(text, at) : at;
            if (at < 0) {
                return at;
            }
        }
    }

    /** Place of the value behind a name and its colon. */
    private static int name(byte[] text, int at) {
        if (at == text.length) {
            return CUT_OFF;
        }
        if (text[at] != '"') {
            return wrong(at);
        }
        at = string(text, at + 1);
        if (at < 0) {
            return at;
        }
        at = blanks(text, at);
        return at == text.length ? CUT_OFF : text[at] == ':' ? blanks(text, at + 1) : wrong(at);
    }

    private static int scalar(byte[] text, int at) {
        if (at == text.length) {
            return CUT_OFF;
        }
        return switch (text[at]) {
            case '"' -> string(text, at + 1);
            case 't' -> word(text, at, "true");
            case 'f' -> word(text, at, "false");
            case 'n' -> word(text, at, "null");
            default -> number(text, at);
        };
    }

    private static int word(byte[] text, int at, String word) {
        for (int i = 0; i < word.length(); i++, at++) {
            if (at == text.length) {
                return CUT_OFF;
            }
            if (text[at] != word.charAt(i)) {
                return wrong(at);
            }
        }
        return at;
    }

    /** @param at behind the quote that opens it */
    private static int string(byte[] text, int at) {
        for (; at < text.length; at++) {
            byte one = text[at];
            if (one == '"') {
                return at + 1;
            }
            if (one >= 0 && one < ' ') {
                return wrong(at);
            }
            if (one != '\\') {
                continue;
            }
            if (++at == text.length) {
                return CUT_OFF;
            }
            if (text[at] == 'u') {
                for (int last = at + 4; at < last; ) {
                    if (++at == text.length) {
                        return CUT_OFF;
                    }
                    if (Character.digit(text[at], 16) < 0) {
                        return wrong(at);
                    }
                }
            } else if ("\"\\/bfnrt".indexOf(text[at]) < 0) {
                return wrong(at);
            }
        }
        return CUT_OFF;
    }

    private static int number(byte[] text, int at) {
        at += text[at] == '-' ? 1 : 0;
        if (at < text.length && text[at] == '0') {
            at++;
        } else {
            at = digits(text, at);
        }
        if (at >= 0 && at < text.length && text[at] == '.') {
            at = digits(text, at + 1);
        }
        if (at >= 0 && at < text.length && (text[at] == 'e' || text[at] == 'E')) {
            at++;
            at += at < text.length && (text[at] == '+' || text[at] == '-') ? 1 : 0;
            at = digits(text, at);
        }
        return at;
    }

    /** One at least. */
    private static int digits(byte[] text, int at) {
        if (at == text.length) {
            return CUT_OFF;
        }
        int start = at;
        while (at < text.length && text[at] >= '0' && text[at] <= '9') {
            at++;
        }
        return at > start ? at : wrong(at);
    }

    private static int blanks(byte[] text, int at) {
        while (at < text.length && (text[at] == ' ' || text[at] == '\t' || text[at] == '\n' || text[at] == '\r')) {
            at++;
        }
        return at;
    }

    /** Bytes count from 1; the first one is the object's brace, so this is never CUT_OFF. */
    private static int wrong(int at) {
        return -(at + 1);
    }
}
