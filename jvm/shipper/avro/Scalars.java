package shipper.avro;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.time.DateTimeException;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.Base64;
import java.util.Map;
import java.util.UUID;
import org.apache.avro.Conversions;
import org.apache.avro.LogicalType;
import org.apache.avro.LogicalTypes;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;

/** Values without parts, in the form in which shipper.lines writes those of tables as JSON. */
final class Scalars {
    private static final Conversions.DecimalConversion DECIMALS = new Conversions.DecimalConversion();
    private static final long NANOS = 1_000_000_000L;
    /** Units per second, by the end of a logical type's name. */
    private static final Map<String, Long> UNITS = Map.of("millis", 1_000L, "micros", 1_000_000L, "nanos", NANOS);

    private Scalars() {}

    /** As Avro stores it, of the parser's token. Raises Misfit. */
    static Object value(Schema schema, JsonParser parser) throws Misfit, IOException {
        LogicalType logical = schema.getLogicalType();
        String kind = logical == null ? "" : logical.getName();
        return switch (schema.getType()) {
            case NULL -> {
                JsonValues.expect(parser.currentToken() == JsonToken.VALUE_NULL, "null");
                yield null;
            }
            case BOOLEAN -> {
                JsonValues.expect(parser.currentToken().isBoolean(), "true or false");
                yield parser.getBooleanValue();
            }
            case INT -> {
                long found = whole(kind, parser);
                if (found != (int) found) {
                    throw new Misfit("too large for an int");
                }
                yield (int) found;
            }
            case LONG -> whole(kind, parser);
            case FLOAT -> {
                double found = real(parser);
                if (Double.isFinite(found) && Float.isInfinite((float) found)) {
                    throw new Misfit("too large for a float");
                }
                yield (float) found;
            }
            case DOUBLE -> real(parser);
            case STRING -> text(parser, "text");
            case ENUM -> {
                String found = text(parser, "text");
                if (!schema.hasEnumSymbol(found)) {
                    throw new Misfit("none of the symbols of " + schema.getName());
                }
                yield new GenericData.EnumSymbol(schema, found);
            }
            case BYTES -> logical instanceof LogicalTypes.Decimal decimal
                    ? DECIMALS.toBytes(decimal(decimal, parser), schema, decimal)
                    : ByteBuffer.wrap(base64(parser));
            case FIXED -> logical instanceof LogicalTypes.Decimal decimal
                    ? DECIMALS.toFixed(decimal(decimal, parser), schema, decimal)
                    : new GenericData.Fixed(schema, kind.equals("uuid") ? uuid(text(parser, "a UUID")) : fixed(schema.getFixedSize(), parser));
            default -> throw new IllegalStateException(schema.getType().getName());
        };
    }

    private static String text(JsonParser parser, String what) throws Misfit, IOException {
        JsonValues.expect(parser.currentToken() == JsonToken.VALUE_STRING, what);
        return parser.getText();
    }

    /** A number is the stored one, whatever it means; text is a time or a date. */
    private static long whole(String kind, JsonParser parser) throws Misfit, IOException {
        if (parser.currentToken() == JsonToken.VALUE_NUMBER_INT) {
            BigInteger found = parser.getBigIntegerValue();
            if (found.bitLength() > 63) {
                throw new Misfit("too large for a long");
            }
            return found.longValue();
        }
        JsonValues.expect(!kind.isEmpty(), "a whole number");
        String text = text(parser, "a whole number, or text");
        try {
            return moment(kind, text);
        } catch (DateTimeException | ArithmeticException error) { // quotes what it found
            throw new Misfit("no " + kind);
        }
    }

    private static long moment(String kind, String text) throws Misfit {
        if (kind.equals("date")) {
            return LocalDate.parse(text).toEpochDay();
        }
        Long perSecond = UNITS.get(kind.substring(kind.lastIndexOf('-') + 1));
        JsonValues.expect(perSecond != null, "a whole number");
        if (kind.startsWith("time-")) {
            LocalTime time = LocalTime.parse(text);
            return units(time.toSecondOfDay(), time.getNano(), perSecond);
        }
        if (kind.startsWith("local-timestamp-")) {
            LocalDateTime local = LocalDateTime.parse(text);
            return units(local.toEpochSecond(ZoneOffset.UTC), local.getNano(), perSecond);
        }
        Instant instant = OffsetDateTime.parse(text).toInstant();
        return units(instant.getEpochSecond(), instant.getNano(), perSecond);
    }

    private static long units(long seconds, int nanos, long perSecond) throws Misfit {
        long nanosPerUnit = NANOS / perSecond;
        if (nanos % nanosPerUnit != 0) {
            throw new Misfit("finer than its unit: cut it in `records.value`, or take a finer type");
        }
        return Math.addExact(Math.multiplyExact(seconds, perSecond), nanos / nanosPerUnit);
    }

    private static double real(JsonParser parser) throws Misfit, IOException {
        if (parser.currentToken() == JsonToken.VALUE_STRING) {
            return switch (parser.getText()) {
                case "NaN" -> Double.NaN;
                case "Infinity" -> Double.POSITIVE_INFINITY;
                case "-Infinity" -> Double.NEGATIVE_INFINITY;
                default -> throw new Misfit("expected a number");
            };
        }
        JsonValues.expect(parser.currentToken().isNumeric(), "a number");
        double found = Double.parseDouble(parser.getText());
        if (Double.isInfinite(found)) {
            throw new Misfit("too large for a double");
        }
        return found;
    }

    private static BigDecimal decimal(LogicalTypes.Decimal type, JsonParser parser) throws Misfit, IOException {
        JsonValues.expect(parser.currentToken().isNumeric(), "a number");
        BigDecimal found;
        try {
            found = new BigDecimal(parser.getText()).stripTrailingZeros();
        } catch (NumberFormatException error) { // an exponent beyond all bounds
            throw new Misfit("no decimal");
        }
        // Before any arithmetic: 1e999999999 is short, and has a billion digits.
        if (found.scale() > type.getScale() || (long) found.precision() - found.scale() > type.getPrecision() - type.getScale()) {
            throw new Misfit("more digits than decimal(" + type.getPrecision() + "," + type.getScale() + ") has");
        }
        return found.setScale(type.getScale());
    }

    private static byte[] fixed(int size, JsonParser parser) throws Misfit, IOException {
        byte[] found = base64(parser);
        if (found.length != size) {
            throw new Misfit("expected " + size + " bytes");
        }
        return found;
    }

    private static byte[] uuid(String text) throws Misfit {
        try {
            UUID found = UUID.fromString(text);
            if (found.toString().equalsIgnoreCase(text)) {
                return ByteBuffer.allocate(16).putLong(found.getMostSignificantBits()).putLong(found.getLeastSignificantBits()).array();
            }
        } catch (IllegalArgumentException error) {
            // said below
        }
        throw new Misfit("expected a UUID");
    }

    private static byte[] base64(JsonParser parser) throws Misfit, IOException {
        try {
            return Base64.getDecoder().decode(text(parser, "Base64"));
        } catch (IllegalArgumentException error) {
            throw new Misfit("expected Base64");
        }
    }
}
