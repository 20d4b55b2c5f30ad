package shipper.lines;

import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.Base64;

/**
 * One JSON text after the other, as Spark's to_json writes it (no blanks, binary as Base64, what is no number as text), in UTF-8. Puts the commas.
 * Keeps no more than its room, and counts what goes beyond it.
 */
final class JsonBytes {
    private static final byte[] HEX = "0123456789abcdef".getBytes(StandardCharsets.US_ASCII);

    private final Kept text;
    private int last;
    private boolean naming;

    JsonBytes(Kept text) {
        this.text = text;
    }

    void clear() {
        text.clear();
        last = 0;
        naming = false;
    }

    private void put(int one) {
        last = one;
        text.add(one);
    }

    private void separate() {
        if (last != 0 && last != '{' && last != '[' && last != ':') {
            put(',');
        }
    }

    void openObject() {
        separate();
        put('{');
    }

    void closeObject() {
        put('}');
    }

    void openArray() {
        separate();
        put('[');
    }

    void closeArray() {
        put(']');
    }

    void name(String name) {
        naming = true;
        string(name);
    }

    /** The next value is a name, whatever it is. */
    void nameNext() {
        naming = true;
    }

    void nothing() {
        plain("null");
    }

    /** Bytes that are no UTF-8 stay as they are. */
    void string(byte[] utf8, int start, int length) {
        separate();
        put('"');
        for (int i = start; i < start + length; i++) {
            character(utf8[i]);
        }
        put('"');
        if (naming) {
            put(':');
            naming = false;
        }
    }

    /** The same with each byte that is no UTF-8 as the lone surrogate U+DCXX, escaped. */
    void text(byte[] bytes, int start, int length) {
        separate();
        put('"');
        int end = start + length;
        for (int i = start; i < end; i++) {
            int invalid = Utf8.firstInvalid(bytes, i, end);
            while (i < invalid) {
                character(bytes[i++]);
            }
            if (i < end) {
                escape('d', 'c', bytes[i]);
            }
        }
        put('"');
    }

    private void escape(int first, int second, byte last) {
        put('\\');
        put('u');
        put(first);
        put(second);
        put(HEX[last >> 4 & 15]);
        put(HEX[last & 15]);
    }

    private void character(byte one) {
        if (one == '"' || one == '\\') {
            put('\\');
            put(one);
        } else if (one >= 0 && one < 0x20) {
            int letter = one == '\n' ? 'n' : one == '\r' ? 'r' : one == '\t' ? 't' : 0;
            if (letter == 0) {
                escape('0', '0', one);
            } else {
                put('\\');
                put(letter);
            }
        } else {
            put(one);
        }
    }

    void string(String text) {
        byte[] utf8 = text.getBytes(StandardCharsets.UTF_8);
        string(utf8, 0, utf8.length);
    }

    void base64(byte[] content) {
        byte[] text = Base64.getEncoder().encode(content);
        string(text, 0, text.length);
    }

    /** A number, a truth value or null; quoted where a name belongs. */
    private void plain(String ascii) {
        if (naming) {
            string(ascii);
            return;
        }
        separate();
        for (int i = 0; i < ascii.length(); i++) {
            put(ascii.charAt(i));
        }
    }

    void number(long number) {
        plain(Long.toString(number));
    }

    void unsigned(long number) {
        plain(Long.toUnsignedString(number));
    }

    void number(double number) {
        real(Double.isFinite(number), Double.toString(number));
    }

    void number(float number) {
        real(Float.isFinite(number), Float.toString(number));
    }

    private void real(boolean finite, String text) {
        if (finite) {
            plain(text);
        } else {
            string(text);
        }
    }

    void number(BigDecimal number) {
        plain(number.toPlainString());
    }

    void truth(boolean truth) {
        plain(Boolean.toString(truth));
    }

    void date(long day) {
        string(LocalDate.ofEpochDay(day).toString());
    }

    /** @param count of units of 1/`perSecond` s since midnight; what is no time of a day stays a number */
    void time(long count, long perSecond) {
        if (count < 0 || count >= 86_400 * perSecond) {
            number(count);
        } else {
            string(DateTimeFormatter.ISO_LOCAL_TIME.format(LocalTime.ofNanoOfDay(count * (1_000_000_000L / perSecond))));
        }
    }

    /**
     * @param count of units of 1/`perSecond` s since 1970
     * @param instant whether it is a moment, written in UTC; else it is what a clock showed, nobody says where, and has no zone
     */
    void timestamp(long count, long perSecond, boolean instant) {
        timestampAt(Math.floorDiv(count, perSecond), (int) (Math.floorMod(count, perSecond) * (1_000_000_000L / perSecond)), instant);
    }

    void timestampAt(long second, int nanos, boolean instant) {
        string(instant
                ? Instant.ofEpochSecond(second, nanos).toString()
                : DateTimeFormatter.ISO_LOCAL_DATE_TIME.format(LocalDateTime.ofEpochSecond(second, nanos, ZoneOffset.UTC)));
    }
}
