package shipper.lines;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonFactoryBuilder;
import com.fasterxml.jackson.core.SerializableString;
import com.fasterxml.jackson.core.io.CharacterEscapes;
import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.core.util.JsonGeneratorDelegate;
import java.io.IOException;
import java.io.OutputStream;
import java.math.BigDecimal;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.Base64;
import org.apache.spark.unsafe.types.UTF8String;
import shipper.redact.Text;

/** One JSON text after the other, as Spark's to_json writes it (no blanks, binary as Base64, what is no number as text), in UTF-8. */
final class Json extends JsonGeneratorDelegate {
    private static final JsonFactory FACTORY = new JsonFactoryBuilder()
            .disable(JsonWriteFeature.WRITE_HEX_UPPER_CASE)
            .enable(JsonWriteFeature.COMBINE_UNICODE_SURROGATES_IN_UTF8) // one that stands alone is escaped
            .characterEscapes(new Escapes())
            .rootValueSeparator("")
            .build();
    private static final long NANOS = 1_000_000_000L;

    Json(PieceRecords to) throws IOException {
        super(FACTORY.createGenerator(new OutputStream() {
            @Override
            public void write(int one) {
                write(new byte[] {(byte) one}, 0, 1);
            }

            @Override
            public void write(byte[] bytes, int start, int count) {
                to.keep(bytes, start, count);
            }
        }));
    }

    /** A value without parts. A UTF8String is text: each of its bytes that is no UTF-8 is the lone surrogate U+DCXX, escaped; bytes are binary. */
    void value(Object value) throws IOException {
        boolean isReal = value instanceof Float || value instanceof Double;
        if (value instanceof UTF8String text) {
            byte[] utf8 = text.getBytes();
            if (com.google.common.base.Utf8.isWellFormed(utf8)) {
                writeUTF8String(utf8, 0, utf8.length);
            } else {
                writeString(Text.of(utf8));
            }
        } else if (value == null || value instanceof Boolean
                || value instanceof Number number && (!isReal || Double.isFinite(number.doubleValue()))) {
            writeRawValue(text(value));
        } else {
            writeString(text(value));
        }
    }

    /** The value as a name. */
    void name(Object value) throws IOException {
        writeFieldName(text(value));
    }

    private static String text(Object value) {
        return value instanceof BigDecimal number ? number.toPlainString()
                : value instanceof LocalDateTime clock ? DateTimeFormatter.ISO_LOCAL_DATE_TIME.format(clock)
                : value instanceof LocalTime time ? DateTimeFormatter.ISO_LOCAL_TIME.format(time)
                : value instanceof byte[] binary ? Base64.getEncoder().encodeToString(binary)
                : String.valueOf(value);
    }

    /** @param count of units of 1/`perSecond` s since midnight; what is no time of a day stays a number */
    static Object time(long count, long perSecond) {
        return count < 0 || count >= 86_400 * perSecond ? (Object) count : LocalTime.ofNanoOfDay(count * (NANOS / perSecond));
    }

    /**
     * @param count of units of 1/`perSecond` s since 1970
     * @param isInstant whether it is a moment, written in UTC; else it is what a clock showed, nobody says where, and has no zone
     */
    static Object timestamp(long count, long perSecond, boolean isInstant) {
        return timestampAt(Math.floorDiv(count, perSecond), Math.floorMod(count, perSecond) * (NANOS / perSecond), isInstant);
    }

    static Object timestampAt(long second, long nanos, boolean isInstant) {
        Instant instant = Instant.ofEpochSecond(second, nanos);
        return isInstant ? instant : LocalDateTime.ofInstant(instant, ZoneOffset.UTC);
    }

    /** Two characters for what people write, six for other control characters. */
    private static final class Escapes extends CharacterEscapes {
        private static final long serialVersionUID = 1L;

        private final int[] codes = standardAsciiEscapesForJSON();

        Escapes() {
            codes['\b'] = codes['\f'] = ESCAPE_STANDARD;
        }

        @Override
        public int[] getEscapeCodesForAscii() {
            return codes;
        }

        @Override
        public SerializableString getEscapeSequence(int character) {
            return null;
        }
    }
}
