package shipper.lines;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.commons.io.input.BOMInputStream;
import org.apache.hadoop.conf.Configuration;
import shipper.redact.Text;

/**
 * The rows of a CSV file (RFC 4180), each as a JSON object of its fields, all of them text. A row ends at '\n' or "\r\n" outside of quotes; a quote
 * inside of quotes is written twice, and one inside an unquoted field is itself. An empty line is no row. A row with another number of
 * fields than there are names, or with something behind a closing quote, or without one, is a JSON array of its fields, which no
 * `records.parse: {json: …}` takes for an object. So is a row with bytes that are no text in the file's encoding: each of these is
 * the lone surrogate U+DCXX in the array, as Python's `surrogateescape` has it, and escaped. All records are UTF-8. A first line `sep=;`, by which Excel
 * hears what is between fields, is no row.
 */
final class CsvRecords extends PieceRecords {
    private static final Pattern SEPARATOR = Pattern.compile("sep=([^\\r\\n])\\r?\\n");

    private enum At { START, PLAIN, QUOTED, BEHIND_QUOTE, RETURN_BEHIND_QUOTE }

    private final Framing framing;
    private final Json json = new Json(this);
    private InputStream in;
    private final byte[] buffer = new byte[64 * 1024];
    private int at;
    private int filled;
    private List<String> names;
    /** The fields of the row, one behind the other, and where each ends. */
    private byte[] row = new byte[1024];
    private int used;
    private int[] ends = new int[16];
    private int fields;
    private boolean quoted;
    private boolean malformed;
    private boolean ascii;
    private boolean dropped;
    /** Bytes of the row that were read past. */
    private long beyond;
    /** Line ends inside of the row's quotes. */
    private long lineEnds;
    private boolean isObject;

    CsvRecords(Piece piece, int maxLine, Framing framing, Configuration conf) throws IOException {
        super(piece, maxLine, conf);
        this.framing = framing;
    }

    @Override
    void begin() throws IOException {
        super.begin();
        InputStream text = text(framing);
        if (text != null) {
            in = BOMInputStream.builder().setInputStream(text).get();
        }
    }

    @Override
    boolean next() throws IOException {
        if (in == null) {
            return false;
        }
        if (names == null) {
            passSeparator();
            names = framing.columns().isEmpty() ? header() : framing.columns();
            passDelivered();
        }
        if (!row()) {
            return false;
        }
        clear();
        isObject = !malformed && !dropped && fields == names.size() && isText();
        if (isObject) {
            json.writeStartObject();
            for (int i = 0; i < fields; i++) {
                json.writeFieldName(names.get(i));
                json.writeUTF8String(row, start(i), ends[i] - start(i));
            }
            json.writeEndObject();
        } else {
            json.writeStartArray();
            for (int i = 0; i < fields; i++) {
                json.writeString(Text.of(Arrays.copyOfRange(row, start(i), ends[i])));
            }
            json.writeEndArray();
        }
        json.flush();
        unpacked += length + 1 + beyond;
        return true;
    }

    /** Passes over a first line by which Excel hears what is between fields. Raises IOException if it says something else than the pipeline. */
    private void passSeparator() throws IOException {
        filled = in.readNBytes(buffer, 0, buffer.length);
        Matcher found = SEPARATOR.matcher(new String(buffer, 0, Math.min(filled, 8), StandardCharsets.ISO_8859_1));
        if (!found.lookingAt()) {
            return;
        }
        if ((byte) found.group(1).charAt(0) != framing.delimiter()) {
            throw new IOException("its first line says that \"" + found.group(1) + "\" is between its fields: set `source.csv.delimiter`");
        }
        at = found.end();
    }

    /** Passes over the rows that were shipped when the file had no others. */
    private void passDelivered() throws IOException {
        while (consumed() < piece.from() && line()) {
            // Up to what was added.
        }
        if (piece.from() > 0 && consumed() > piece.from()) {
            throw new IOException("the row that was its last one goes on: what was shipped of it ends inside of quotes");
        }
    }

    private long consumed() {
        return whole.position() - (filled - at);
    }

    /** Where field `i` begins in the row. */
    private int start(int i) {
        return i == 0 ? 0 : ends[i - 1];
    }

    private boolean isText() {
        return ascii || com.google.common.base.Utf8.isWellFormed(row, 0, used);
    }

    private List<String> header() throws IOException {
        if (!row()) {
            return List.of();
        }
        if (malformed || dropped) {
            throw new IOException("its first row, which names the fields, is " + (dropped ? "longer than `records.max_line`" : "not well quoted"));
        }
        if (!isText()) {
            throw new IOException("its first row, which names the fields, is not text in " + framing.encoding()
                    + ": say in `source.encoding` how the file is written");
        }
        Set<String> found = new LinkedHashSet<>();
        for (int i = 0; i < fields; i++) {
            if (!found.add(new String(row, start(i), ends[i] - start(i), StandardCharsets.UTF_8))) {
                throw new IOException("its first row names field " + (i + 1) + " as another one; say in `source.csv.columns` what the fields are");
            }
        }
        return List.copyOf(found);
    }

    private int read() throws IOException {
        if (at == filled) {
            filled = Math.max(0, in.read(buffer));
            at = 0;
            if (filled == 0) {
                return -1;
            }
        }
        return buffer[at++] & 0xff;
    }

    /** Goes to the next row that is no empty line; false at the end of the file. */
    private boolean row() throws IOException {
        do {
            if (!line()) {
                return false;
            }
        } while (fields == 1 && used == 0 && !quoted && !dropped);
        return true;
    }

    /** Goes to the next row, which may be an empty line; false at the end of the file. */
    private boolean line() throws IOException {
        used = 0;
        fields = 0;
        quoted = false;
        malformed = false;
        ascii = true;
        dropped = false;
        beyond = 0;
        lineEnds = 0;
        int delimiter = framing.delimiter() & 0xff;
        int quote = framing.quote();
        At state = At.START;
        int before = -1;
        for (int one = read(), count = 0; ; before = one, one = read(), count++) {
            if (one < 0) {
                malformed |= state == At.QUOTED;
                lineEnds -= state == At.QUOTED && before == '\n' ? 1 : 0; // the file's last one, with nothing behind it
                if (count > 0) {
                    endField();
                }
                return count > 0;
            }
            if (state == At.RETURN_BEHIND_QUOTE && one != '\n') {
                malformed = true;
                keep('\r');
                state = At.PLAIN;
            }
            if (state == At.QUOTED) {
                if (one == quote) {
                    state = At.BEHIND_QUOTE;
                } else {
                    lineEnds += one == '\n' ? 1 : 0;
                    keep(one);
                }
            } else if (state == At.BEHIND_QUOTE && one == quote) {
                keep(one);
                state = At.QUOTED;
            } else if (one == delimiter) {
                endField();
                state = At.START;
            } else if (one == '\n') {
                if (state == At.PLAIN && used > start(fields) && row[used - 1] == '\r') {
                    used--;
                }
                endField();
                return true;
            } else if (state == At.START && one == quote) {
                quoted = true;
                state = At.QUOTED;
            } else if (state == At.BEHIND_QUOTE && one == '\r') {
                state = At.RETURN_BEHIND_QUOTE;
            } else {
                malformed |= state == At.BEHIND_QUOTE;
                keep(one);
                state = At.PLAIN;
            }
        }
    }

    private void keep(int one) {
        if (used > maxLine) {
            dropped = true;
            beyond++;
            return;
        }
        if (used == row.length) {
            row = Arrays.copyOf(row, (int) Math.min(used * 2L, Integer.MAX_VALUE - 8));
        }
        ascii &= one < 0x80;
        row[used++] = (byte) one;
    }

    private void endField() {
        if (fields > maxLine) {
            dropped = true; // nothing but delimiters takes memory too
            return;
        }
        if (fields == ends.length) {
            ends = Arrays.copyOf(ends, fields * 2);
        }
        ends[fields++] = used;
    }

    @Override
    boolean tooLong() {
        return dropped || super.tooLong();
    }

    @Override
    long swallowed() {
        return isObject && !tooLong() ? 0 : lineEnds;
    }
}
