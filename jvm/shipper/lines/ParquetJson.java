package shipper.lines;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.UUID;
import org.apache.parquet.io.api.Binary;
import org.apache.parquet.io.api.Converter;
import org.apache.parquet.io.api.GroupConverter;
import org.apache.parquet.io.api.PrimitiveConverter;
import org.apache.parquet.io.api.RecordMaterializer;
import org.apache.parquet.schema.GroupType;
import org.apache.parquet.schema.LogicalTypeAnnotation;
import org.apache.parquet.schema.LogicalTypeAnnotation.DecimalLogicalTypeAnnotation;
import org.apache.parquet.schema.LogicalTypeAnnotation.IntLogicalTypeAnnotation;
import org.apache.parquet.schema.LogicalTypeAnnotation.TimeLogicalTypeAnnotation;
import org.apache.parquet.schema.LogicalTypeAnnotation.TimeUnit;
import org.apache.parquet.schema.LogicalTypeAnnotation.TimestampLogicalTypeAnnotation;
import org.apache.parquet.schema.MessageType;
import org.apache.parquet.schema.PrimitiveType;
import org.apache.parquet.schema.PrimitiveType.PrimitiveTypeName;
import org.apache.parquet.schema.Type;
import org.apache.parquet.schema.Type.Repetition;

/** Writes rows as Parquet puts them together: it tells of each value that is there, in the order of the schema, and of a null nothing. */
final class ParquetJson extends RecordMaterializer<Boolean> {
    private static final int JULIAN_DAY_OF_1970 = 2_440_588;

    private final JsonBytes json;
    private final GroupConverter root;

    ParquetJson(MessageType schema, JsonBytes json) {
        this.json = json;
        this.root = new Struct(schema, () -> {});
    }

    @Override
    public Boolean getCurrentRecord() {
        return true;
    }

    @Override
    public GroupConverter getRootConverter() {
        return root;
    }

    /** What a value is preceded by: its name, or that it is one more element. */
    private interface Place {
        void begin();
    }

    private Converter of(Type type, Place place) {
        if (type.isPrimitive()) {
            return new Value(type.asPrimitiveType(), place);
        }
        GroupType group = type.asGroupType();
        LogicalTypeAnnotation kind = group.getLogicalTypeAnnotation();
        boolean wraps = group.getFieldCount() == 1 && group.getType(0).isRepetition(Repetition.REPEATED);
        if (wraps && kind instanceof LogicalTypeAnnotation.ListLogicalTypeAnnotation) {
            return new ListOf(group, place);
        }
        if (wraps && isMap(kind) && !group.getType(0).isPrimitive() && group.getType(0).asGroupType().getFieldCount() == 2
                && group.getType(0).asGroupType().getType(0).isPrimitive()) {
            return new MapOf(group.getType(0).asGroupType(), place);
        }
        return new Struct(group, place);
    }

    private static boolean isMap(LogicalTypeAnnotation kind) {
        return kind instanceof LogicalTypeAnnotation.MapLogicalTypeAnnotation
                || kind instanceof LogicalTypeAnnotation.MapKeyValueTypeAnnotation;
    }

    /** An object. A field that is repeated without being a list, as Protobuf's writers have it, is an array. */
    private final class Struct extends GroupConverter {
        private final Place place;
        private final Converter[] fields;
        private int array = -1;

        Struct(GroupType type, Place place) {
            this.place = place;
            fields = new Converter[type.getFieldCount()];
            for (int i = 0; i < fields.length; i++) {
                byte[] name = type.getFieldName(i).getBytes(StandardCharsets.UTF_8);
                int field = i;
                boolean repeated = type.getType(i).isRepetition(Repetition.REPEATED);
                fields[i] = of(type.getType(i), repeated ? () -> element(field, name) : () -> field(name));
            }
        }

        private void field(byte[] name) {
            closeArray();
            json.name(name);
        }

        private void element(int field, byte[] name) {
            if (array != field) {
                field(name);
                json.openArray();
                array = field;
            }
        }

        private void closeArray() {
            if (array >= 0) {
                json.closeArray();
                array = -1;
            }
        }

        @Override
        public Converter getConverter(int field) {
            return fields[field];
        }

        @Override
        public void start() {
            place.begin();
            json.openObject();
        }

        @Override
        public void end() {
            closeArray();
            json.closeObject();
        }
    }

    /** An array. In between there is a group for each element, except in old files (LogicalTypes.md, backward compatibility). */
    private final class ListOf extends GroupConverter {
        private final Place place;
        private final Converter repeated;
        private boolean empty;

        ListOf(GroupType type, Place place) {
            this.place = place;
            Type inner = type.getType(0);
            boolean old = inner.isPrimitive() || inner.asGroupType().getFieldCount() != 1 || inner.getName().equals("array")
                    || inner.getName().equals(type.getName() + "_tuple");
            repeated = old ? of(inner, () -> {}) : new Element(inner.asGroupType().getType(0));
        }

        @Override
        public Converter getConverter(int field) {
            return repeated;
        }

        @Override
        public void start() {
            place.begin();
            json.openArray();
        }

        @Override
        public void end() {
            json.closeArray();
        }

        private final class Element extends GroupConverter {
            private final Converter element;

            Element(Type type) {
                boolean repeated = type.isRepetition(Repetition.REPEATED);
                element = of(type, repeated ? this::another : () -> empty = false);
                nested = repeated;
            }

            /** A list of lists without names, which old writers make. */
            private final boolean nested;

            private void another() {
                if (empty) {
                    json.openArray();
                    empty = false;
                }
            }

            @Override
            public Converter getConverter(int field) {
                return element;
            }

            @Override
            public void start() {
                empty = true;
            }

            @Override
            public void end() {
                if (empty && nested) {
                    json.openArray();
                }
                if (nested) {
                    json.closeArray();
                } else if (empty) {
                    json.nothing();
                }
            }
        }
    }

    /** An object whose names are the keys, as text. */
    private final class MapOf extends GroupConverter {
        private final Place place;
        private final Entry entry;

        MapOf(GroupType type, Place place) {
            this.place = place;
            entry = new Entry(type);
        }

        @Override
        public Converter getConverter(int field) {
            return entry;
        }

        @Override
        public void start() {
            place.begin();
            json.openObject();
        }

        @Override
        public void end() {
            json.closeObject();
        }

        private final class Entry extends GroupConverter {
            private final Converter key;
            private final Converter value;
            private boolean hasKey;
            private boolean hasValue;

            Entry(GroupType type) {
                key = of(type.getType(0), () -> {
                    json.nameNext();
                    hasKey = true;
                });
                value = of(type.getType(1), this::beforeValue);
            }

            private void beforeValue() {
                if (!hasKey) {
                    json.nameNext();
                    json.nothing();
                    hasKey = true;
                }
                hasValue = true;
            }

            @Override
            public Converter getConverter(int field) {
                return field == 0 ? key : value;
            }

            @Override
            public void start() {
                hasKey = false;
                hasValue = false;
            }

            @Override
            public void end() {
                if (!hasValue) {
                    beforeValue();
                    json.nothing();
                }
            }
        }
    }

    private final class Value extends PrimitiveConverter {
        private final Place place;
        private final PrimitiveType type;
        private final LogicalTypeAnnotation kind;
        private final boolean text;

        Value(PrimitiveType type, Place place) {
            this.place = place;
            this.type = type;
            kind = type.getLogicalTypeAnnotation();
            text = kind instanceof LogicalTypeAnnotation.StringLogicalTypeAnnotation
                    || kind instanceof LogicalTypeAnnotation.EnumLogicalTypeAnnotation
                    || kind instanceof LogicalTypeAnnotation.JsonLogicalTypeAnnotation;
        }

        @Override
        public void addBinary(Binary value) {
            place.begin();
            byte[] bytes = value.getBytesUnsafe();
            if (text) {
                json.string(bytes, 0, bytes.length);
            } else if (type.getPrimitiveTypeName() == PrimitiveTypeName.INT96) {
                ByteBuffer parts = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
                long nanos = parts.getLong();
                long day = parts.getInt() - JULIAN_DAY_OF_1970;
                json.timestampAt(day * 86_400 + Math.floorDiv(nanos, 1_000_000_000L), (int) Math.floorMod(nanos, 1_000_000_000L), true);
            } else if (kind instanceof DecimalLogicalTypeAnnotation decimal) {
                json.number(new BigDecimal(new BigInteger(bytes), decimal.getScale()));
            } else if (kind instanceof LogicalTypeAnnotation.UUIDLogicalTypeAnnotation) {
                ByteBuffer parts = ByteBuffer.wrap(bytes);
                json.string(new UUID(parts.getLong(), parts.getLong()).toString());
            } else if (kind instanceof LogicalTypeAnnotation.Float16LogicalTypeAnnotation) {
                json.number(half((bytes[1] & 0xff) << 8 | bytes[0] & 0xff));
            } else {
                json.base64(bytes);
            }
        }

        @Override
        public void addBoolean(boolean value) {
            place.begin();
            json.truth(value);
        }

        @Override
        public void addDouble(double value) {
            place.begin();
            json.number(value);
        }

        @Override
        public void addFloat(float value) {
            place.begin();
            json.number(value);
        }

        @Override
        public void addInt(int value) {
            place.begin();
            if (kind instanceof LogicalTypeAnnotation.DateLogicalTypeAnnotation) {
                json.date(value);
            } else if (kind instanceof IntLogicalTypeAnnotation number && !number.isSigned()) {
                json.number(Integer.toUnsignedLong(value));
            } else {
                integer(value);
            }
        }

        @Override
        public void addLong(long value) {
            place.begin();
            if (kind instanceof IntLogicalTypeAnnotation number && !number.isSigned()) {
                json.unsigned(value);
            } else {
                integer(value);
            }
        }

        private void integer(long value) {
            if (kind instanceof TimestampLogicalTypeAnnotation timestamp) {
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
    }

    /** IEEE 754 binary16; Java has it from 20 on. */
    private static float half(int bits) {
        int exponent = bits >> 10 & 0x1f;
        int fraction = bits & 0x3ff;
        float size = exponent == 0 ? fraction * 0x1p-24f
                : exponent == 31 ? (fraction == 0 ? Float.POSITIVE_INFINITY : Float.NaN)
                : (fraction + 1024) * (float) Math.scalb(1.0, exponent - 25);
        return (bits & 0x8000) == 0 ? size : -size;
    }
}
