package shipper.lines;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.UUID;
import org.apache.parquet.example.data.Group;
import org.apache.parquet.io.api.Binary;
import org.apache.parquet.schema.GroupType;
import org.apache.parquet.schema.LogicalTypeAnnotation;
import org.apache.parquet.schema.LogicalTypeAnnotation.DecimalLogicalTypeAnnotation;
import org.apache.parquet.schema.LogicalTypeAnnotation.IntLogicalTypeAnnotation;
import org.apache.parquet.schema.LogicalTypeAnnotation.TimeLogicalTypeAnnotation;
import org.apache.parquet.schema.LogicalTypeAnnotation.TimeUnit;
import org.apache.parquet.schema.LogicalTypeAnnotation.TimestampLogicalTypeAnnotation;
import org.apache.parquet.schema.PrimitiveType.PrimitiveTypeName;
import org.apache.parquet.schema.Type;
import org.apache.parquet.schema.Type.Repetition;

/** Writes a row that Parquet's own reader has put together. */
final class ParquetJson {
    private static final int JULIAN_DAY_OF_1970 = 2_440_588;

    private final JsonBytes json;

    ParquetJson(JsonBytes json) {
        this.json = json;
    }

    /** An object. A field that is repeated without being a list, as Protobuf's writers have it, is an array. */
    void object(Group group) {
        GroupType type = group.getType();
        json.openObject();
        for (int i = 0; i < type.getFieldCount(); i++) {
            if (group.getFieldRepetitionCount(i) > 0) {
                json.name(type.getFieldName(i));
                field(group, i);
            }
        }
        json.closeObject();
    }

    /** All of a field: of a repeated one an array, of one that is not there a null. */
    private void field(Group group, int field) {
        Type type = group.getType().getType(field);
        if (type.isRepetition(Repetition.REPEATED)) {
            json.openArray();
            for (int i = 0; i < group.getFieldRepetitionCount(field); i++) {
                value(type, group, field, i);
            }
            json.closeArray();
        } else if (group.getFieldRepetitionCount(field) == 0) {
            json.nothing();
        } else {
            value(type, group, field, 0);
        }
    }

    private void value(Type type, Group group, int field, int i) {
        if (type.isPrimitive()) {
            primitive(type, group, field, i);
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
    private void list(Group list) {
        Type inner = list.getType().getType(0);
        if (inner.isPrimitive() || inner.asGroupType().getFieldCount() != 1 || inner.getName().equals("array")
                || inner.getName().equals(list.getType().getName() + "_tuple")) {
            field(list, 0);
            return;
        }
        json.openArray();
        for (int i = 0; i < list.getFieldRepetitionCount(0); i++) {
            field(list.getGroup(0, i), 0);
        }
        json.closeArray();
    }

    /** An object whose names are the keys, as text. */
    private void map(Group map) {
        json.openObject();
        for (int i = 0; i < map.getFieldRepetitionCount(0); i++) {
            Group entry = map.getGroup(0, i);
            json.nameNext();
            field(entry, 0);
            field(entry, 1);
        }
        json.closeObject();
    }

    private void primitive(Type type, Group group, int field, int i) {
        LogicalTypeAnnotation kind = type.getLogicalTypeAnnotation();
        PrimitiveTypeName stored = type.asPrimitiveType().getPrimitiveTypeName();
        boolean unsigned = kind instanceof IntLogicalTypeAnnotation number && !number.isSigned();
        switch (stored) {
            case BOOLEAN -> json.truth(group.getBoolean(field, i));
            case FLOAT -> json.number(group.getFloat(field, i));
            case DOUBLE -> json.number(group.getDouble(field, i));
            case INT32 -> {
                int value = group.getInteger(field, i);
                integer(kind, unsigned ? Integer.toUnsignedLong(value) : value);
            }
            case INT64 -> {
                if (unsigned) {
                    json.unsigned(group.getLong(field, i));
                } else {
                    integer(kind, group.getLong(field, i));
                }
            }
            case INT96 -> {
                ByteBuffer parts = buffer(group.getInt96(field, i)).order(ByteOrder.LITTLE_ENDIAN);
                long nanos = parts.getLong();
                long day = parts.getInt() - JULIAN_DAY_OF_1970;
                json.timestampAt(day * 86_400 + Math.floorDiv(nanos, 1_000_000_000L), (int) Math.floorMod(nanos, 1_000_000_000L), true);
            }
            default -> bytes(kind, group.getBinary(field, i));
        }
    }

    private void integer(LogicalTypeAnnotation kind, long value) {
        if (kind instanceof LogicalTypeAnnotation.DateLogicalTypeAnnotation) {
            json.date(value);
        } else if (kind instanceof TimestampLogicalTypeAnnotation timestamp) {
            json.timestamp(value, perSecond(timestamp.getUnit()), timestamp.isAdjustedToUTC());
        } else if (kind instanceof TimeLogicalTypeAnnotation time) {
            json.time(value, perSecond(time.getUnit()));
        } else if (kind instanceof DecimalLogicalTypeAnnotation decimal) {
            json.number(BigDecimal.valueOf(value, decimal.getScale()));
        } else {
            json.number(value);
        }
    }

    private static long perSecond(TimeUnit unit) {
        return unit == TimeUnit.MILLIS ? 1_000L : unit == TimeUnit.MICROS ? 1_000_000L : 1_000_000_000L;
    }

    private void bytes(LogicalTypeAnnotation kind, Binary value) {
        byte[] bytes = value.getBytesUnsafe();
        if (kind instanceof LogicalTypeAnnotation.StringLogicalTypeAnnotation
                || kind instanceof LogicalTypeAnnotation.EnumLogicalTypeAnnotation
                || kind instanceof LogicalTypeAnnotation.JsonLogicalTypeAnnotation) {
            json.string(bytes, 0, bytes.length);
        } else if (kind instanceof DecimalLogicalTypeAnnotation decimal) {
            json.number(new BigDecimal(new BigInteger(bytes), decimal.getScale()));
        } else if (kind instanceof LogicalTypeAnnotation.UUIDLogicalTypeAnnotation) {
            ByteBuffer parts = buffer(value);
            json.string(new UUID(parts.getLong(), parts.getLong()).toString());
        } else if (kind instanceof LogicalTypeAnnotation.Float16LogicalTypeAnnotation) {
            json.number(half(buffer(value).order(ByteOrder.LITTLE_ENDIAN).getShort()));
        } else {
            json.base64(bytes);
        }
    }

    private static ByteBuffer buffer(Binary value) {
        return ByteBuffer.wrap(value.getBytesUnsafe());
    }

    /** IEEE 754 binary16; Java has it from 20 on. */
    private static float half(short bits) {
        int exponent = bits >> 10 & 0x1f;
        int fraction = bits & 0x3ff;
        float size = exponent == 0 ? fraction * 0x1p-24f
                : exponent == 31 ? (fraction == 0 ? Float.POSITIVE_INFINITY : Float.NaN)
                : (fraction + 1024) * (float) Math.scalb(1.0, exponent - 25);
        return bits >= 0 ? size : -size;
    }
}
