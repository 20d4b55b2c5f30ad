package shipper.lines;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Collection;
import java.util.Map;
import org.apache.avro.Conversion;
import org.apache.avro.Conversions;
import org.apache.avro.LogicalType;
import org.apache.avro.LogicalTypes;
import org.apache.avro.Schema;
import org.apache.avro.data.TimeConversions;
import org.apache.avro.file.DataFileReader;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericFixed;
import org.apache.avro.generic.IndexedRecord;
import org.apache.avro.util.Utf8;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.network.util.JavaUtils;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The values of an Avro file (an object container file). A block belongs to the piece in which the mark in front of it begins, so the first piece has
 * the file's header too. What is no record is an object with the one field `value`.
 */
final class AvroRecords extends TableRecords {
    /** Per second, by the end of a logical type's name. */
    private static final Map<String, Long> UNITS = Map.of("millis", 1_000L, "micros", 1_000_000L, "nanos", 1_000_000_000L);

    private DataFileReader<Object> reader;
    private Object reused;
    private long first;
    private boolean ended;

    AvroRecords(Piece piece, int maxLine, Configuration conf) throws IOException {
        super(piece, maxLine, conf);
    }

    @Override
    void header() throws IOException {
        GenericData types = new GenericData();
        types.addLogicalTypeConversion(new Conversions.DecimalConversion());
        types.addLogicalTypeConversion(new TimeConversions.DateConversion());
        for (String unit : UNITS.keySet()) {
            types.addLogicalTypeConversion(new Moments("time-" + unit));
            types.addLogicalTypeConversion(new Moments("timestamp-" + unit));
            types.addLogicalTypeConversion(new Moments("local-timestamp-" + unit));
        }
        reader = opened(new DataFileReader<>(stored, new GenericDatumReader<>(null, null, types)));
        if (piece.start() > 0) {
            reader.sync(piece.start());
            first = reader.previousSync();
        }
    }

    @Override
    boolean row() throws IOException {
        if (ended || reader.pastSync(piece.end())) {
            ended = true;
            return false;
        }
        if (!reader.hasNext()) {
            if (reader.previousSync() < piece.size()) {
                throw new IOException("a block of it holds nothing, which Avro's reader takes for the end of the file");
            }
            ended = true;
            return false;
        }
        reused = reader.next(reused);
        if (reader.getSchema().getType() == Schema.Type.RECORD) {
            value(reused);
        } else {
            json.writeStartObject();
            json.writeFieldName("value");
            value(reused);
            json.writeEndObject();
        }
        return true;
    }

    private void value(Object value) throws IOException {
        if (value instanceof IndexedRecord record) {
            json.writeStartObject();
            for (Schema.Field field : record.getSchema().getFields()) {
                if (record.get(field.pos()) != null) {
                    json.writeFieldName(field.name());
                    value(record.get(field.pos()));
                }
            }
            json.writeEndObject();
        } else if (value instanceof Collection<?> all) {
            json.writeStartArray();
            for (Object one : all) {
                value(one);
            }
            json.writeEndArray();
        } else if (value instanceof Map<?, ?> map) {
            json.writeStartObject();
            for (Map.Entry<?, ?> entry : map.entrySet()) {
                json.name(entry.getKey());
                value(entry.getValue());
            }
            json.writeEndObject();
        } else {
            json.value(scalar(value));
        }
    }

    private static Object scalar(Object value) {
        if (value instanceof Utf8 text) {
            return UTF8String.fromBytes(text.getBytes(), 0, text.getByteLength());
        } else if (value instanceof ByteBuffer bytes) {
            return JavaUtils.bufferToArray(bytes);
        } else if (value instanceof GenericFixed fixed) {
            boolean isUuid = LogicalTypes.uuid().equals(fixed.getSchema().getLogicalType());
            return isUuid ? new Conversions.UUIDConversion().fromFixed(fixed, fixed.getSchema(), LogicalTypes.uuid()) : fixed.bytes();
        }
        return value;
    }

    /** Moments and times of a day in one unit. */
    private static final class Moments extends Conversion<Object> {
        private final String name;
        private final long perSecond;

        Moments(String name) {
            this.name = name;
            perSecond = UNITS.get(name.substring(name.lastIndexOf('-') + 1));
        }

        @Override
        public String getLogicalTypeName() {
            return name;
        }

        @Override
        public Class<Object> getConvertedType() {
            return Object.class;
        }

        @Override
        public Object fromInt(Integer count, Schema schema, LogicalType type) {
            return fromLong(count.longValue(), schema, type);
        }

        @Override
        public Object fromLong(Long count, Schema schema, LogicalType type) {
            return name.startsWith("time-") ? Json.time(count, perSecond) : Json.timestamp(count, perSecond, name.startsWith("timestamp-"));
        }
    }

    /** From the mark in front of its first block to the one in front of the next piece's. */
    @Override
    long stored() {
        return reader == null ? 0 : Math.max(0, reader.previousSync() - first);
    }
}
