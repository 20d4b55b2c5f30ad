package shipper.lines;

import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.Arrays;
import java.util.Base64;

/**
 * One JSON text after the other, as Spark's to_json writes it (no blanks, binary as Base64, what is no number as text), in UTF-8. Puts the commas.
 * Keeps no more than its room, and counts what goes beyond it.
 */
final class JsonBytes {
    private static final byte[] HEX = "0123456789abcdef".getBytes(StandardCharsets.US_ASCII);
    private static final byte[] NULL = "null".getBytes(StandardCharsets.US_ASCII);

    private final int room;
    private byte[] bytes = new byte[1024];
    private int kept;
    private long size;
    private int last;
    private boolean naming;

    JsonBytes(int room) {
        this.room = room;
    }

    void clear() {
        kept = 0;
        size = 0;
        last = 0;
        naming = false;
    }

    byte[] bytes() {
        return bytes;
    }

    int kept() {
        return kept;
    }

    /** Of the whole text. */
    long size() {
        return size;
    }

    private void put(int one) {
        last = one;
        size++;
        if (kept < room) {
            if (kept == bytes.length) {
                bytes = Arrays.copyOf(bytes, (int) Math.min((long) bytes.length * 2, room));
            }
            bytes[kept++] = (byte) one;
        }
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

    void name(byte[] utf8) {
        naming = true;
        string(utf8, 0, utf8.length);
    }

    /** The next value is a name, whatever it is. */
    void nameNext() {
        naming = true;
    }

    void nothing() {
        if (naming) {
            string("null");
            return;
        }
        separate();
        for (byte one : NULL) {
            put(one);
        }
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

    /** A number or a truth value. */
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
        if (Double.isFinite(number)) {
            plain(Double.toString(number));
        } else {
            string(Double.toString(number));
        }
    }

    void number(float number) {
        if (Float.isFinite(number)) {
            plain(Float.toString(number));
        } else {
            string(Float.toString(number));
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
