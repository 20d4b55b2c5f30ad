package shipper.lines;

import com.google.common.primitives.UnsignedLong;
import java.io.IOException;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.LocalDate;
import org.apache.parquet.example.data.Group;
import org.apache.parquet.example.data.simple.NanoTime;
import org.apache.parquet.io.api.Binary;
import org.apache.parquet.schema.GroupType;
import org.apache.parquet.schema.LogicalTypeAnnotation;
import org.apache.parquet.schema.LogicalTypeAnnotation.DecimalLogicalTypeAnnotation;
import org.apache.parquet.schema.LogicalTypeAnnotation.IntLogicalTypeAnnotation;
import org.apache.parquet.schema.LogicalTypeAnnotation.TimeLogicalTypeAnnotation;
import org.apache.parquet.schema.LogicalTypeAnnotation.TimeUnit;
import org.apache.parquet.schema.LogicalTypeAnnotation.TimestampLogicalTypeAnnotation;
import org.apache.parquet.schema.PrimitiveType;
import org.apache.parquet.schema.Type;
import org.apache.parquet.schema.Type.Repetition;
import org.apache.spark.unsafe.types.UTF8String;

/** Writes a row that Parquet's own reader has put together. */
final class ParquetJson {
    private static final int JULIAN_DAY_OF_1970 = 2_440_588;

    private final Json json;

    ParquetJson(Json json) {
        this.json = json;
    }

    /** An object. A field that is repeated without being a list, as Protobuf's writers have it, is an array. */
    void object(Group group) throws IOException {
        GroupType type = group.getType();
        json.writeStartObject();
        for (int i = 0; i < type.getFieldCount(); i++) {
            if (group.getFieldRepetitionCount(i) > 0) {
                json.writeFieldName(type.getFieldName(i));
                field(group, i);
            }
        }
        json.writeEndObject();
    }

    /** All of a field: of a repeated one an array, of one that is not there a null. */
    private void field(Group group, int field) throws IOException {
        Type type = group.getType().getType(field);
        if (type.isRepetition(Repetition.REPEATED)) {
            json.writeStartArray();
            for (int i = 0; i < group.getFieldRepetitionCount(field); i++) {
                value(type, group, field, i);
            }
            json.writeEndArray();
        } else if (group.getFieldRepetitionCount(field) == 0) {
            json.writeNull();
        } else {
            value(type, group, field, 0);
        }
    }

    private void value(Type type, Group group, int field, int i) throws IOException {
        if (type.isPrimitive()) {
            json.value(scalar(type.asPrimitiveType(), group, field, i));
            return;
        }
        Group value = group.getGroup(field, i);
        LogicalTypeAnnotation kind = type.getLogicalTypeAnnotation();
        boolean wraps = value.getType().getFieldCount() == 1 && value.getType().getType(0).isRepetition(Repetition.REPEATED);
        if (wraps && kind instanceof LogicalTypeAnnotation.ListLogicalTypeAnnotation) {
            list(value);
        } else if (wraps && isMap(kind, value.getType().getType(0))) {
            map(value);
        } else {
            object(value);
        }
    }

    private static boolean isMap(LogicalTypeAnnotation kind, Type entry) {
        return (kind instanceof LogicalTypeAnnotation.MapLogicalTypeAnnotation
                        || kind instanceof LogicalTypeAnnotation.MapKeyValueTypeAnnotation)
                && !entry.isPrimitive() && entry.asGroupType().getFieldCount() == 2 && entry.asGroupType().getType(0).isPrimitive();
    }

    /** An array. In between there is a group for each element, except in old files (LogicalTypes.md, backward compatibility). */
    private void list(Group list) throws IOException {
        Type inner = list.getType().getType(0);
        if (inner.isPrimitive() || inner.asGroupType().getFieldCount() != 1 || inner.getName().equals("array")
                || inner.getName().equals(list.getType().getName() + "_tuple")) {
            field(list, 0);
            return;
        }
        json.writeStartArray();
        for (int i = 0; i < list.getFieldRepetitionCount(0); i++) {
            field(list.getGroup(0, i), 0);
        }
        json.writeEndArray();
    }

    /** An object whose names are the keys, as text. */
    private void map(Group map) throws IOException {
        json.writeStartObject();
        for (int i = 0; i < map.getFieldRepetitionCount(0); i++) {
            Group entry = map.getGroup(0, i);
            boolean isNull = entry.getFieldRepetitionCount(0) == 0;
            json.name(isNull ? null : scalar(entry.getType().getType(0).asPrimitiveType(), entry, 0, 0));
            field(entry, 1);
        }
        json.writeEndObject();
    }

    private static Object scalar(PrimitiveType type, Group group, int field, int i) {
        LogicalTypeAnnotation kind = type.getLogicalTypeAnnotation();
        boolean unsigned = kind instanceof IntLogicalTypeAnnotation number && !number.isSigned();
        return switch (type.getPrimitiveTypeName()) {
            case BOOLEAN -> group.getBoolean(field, i);
            case FLOAT -> group.getFloat(field, i);
            case DOUBLE -> group.getDouble(field, i);
            case INT32 -> {
                int value = group.getInteger(field, i);
                yield integer(kind, unsigned ? Integer.toUnsignedLong(value) : value);
            }
            case INT64 -> {
                long value = group.getLong(field, i);
                yield unsigned ? UnsignedLong.fromLongBits(value) : integer(kind, value);
            }
            case INT96 -> {
                NanoTime time = NanoTime.fromBinary(group.getInt96(field, i));
                yield Json.timestampAt((time.getJulianDay() - JULIAN_DAY_OF_1970) * 86_400L, time.getTimeOfDayNanos(), true);
            }
            default -> bytes(type, group.getBinary(field, i));
        };
    }

    private static Object integer(LogicalTypeAnnotation kind, long value) {
        if (kind instanceof LogicalTypeAnnotation.DateLogicalTypeAnnotation) {
            return LocalDate.ofEpochDay(value);
        } else if (kind instanceof TimestampLogicalTypeAnnotation timestamp) {
            return Json.timestamp(value, perSecond(timestamp.getUnit()), timestamp.isAdjustedToUTC());
        } else if (kind instanceof TimeLogicalTypeAnnotation time) {
            return Json.time(value, perSecond(time.getUnit()));
        } else if (kind instanceof DecimalLogicalTypeAnnotation decimal) {
            return BigDecimal.valueOf(value, decimal.getScale());
        }
        return value;
    }

    private static long perSecond(TimeUnit unit) {
        return unit == TimeUnit.MILLIS ? 1_000L : unit == TimeUnit.MICROS ? 1_000_000L : 1_000_000_000L;
    }

    private static Object bytes(PrimitiveType type, Binary value) {
        LogicalTypeAnnotation kind = type.getLogicalTypeAnnotation();
        byte[] bytes = value.getBytesUnsafe();
        if (kind instanceof LogicalTypeAnnotation.StringLogicalTypeAnnotation
                || kind instanceof LogicalTypeAnnotation.EnumLogicalTypeAnnotation
                || kind instanceof LogicalTypeAnnotation.JsonLogicalTypeAnnotation) {
            return UTF8String.fromBytes(bytes);
        } else if (kind instanceof DecimalLogicalTypeAnnotation decimal) {
            return new BigDecimal(new BigInteger(bytes), decimal.getScale());
        } else if (kind instanceof LogicalTypeAnnotation.UUIDLogicalTypeAnnotation) {
            return type.stringifier().stringify(value);
        } else if (kind instanceof LogicalTypeAnnotation.Float16LogicalTypeAnnotation) {
            return Float.valueOf(type.stringifier().stringify(value));
        }
        return bytes;
    }
}
