package shipper.lines;

import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Collection;
import java.util.Map;
import org.apache.avro.Conversion;
import org.apache.avro.Conversions;
import org.apache.avro.LogicalType;
import org.apache.avro.LogicalTypes;
import org.apache.avro.Schema;
import org.apache.avro.data.TimeConversions;
import org.apache.avro.file.DataFileConstants;
import org.apache.avro.file.DataFileReader;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericFixed;
import org.apache.avro.generic.IndexedRecord;
import org.apache.avro.io.DatumReader;
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

    private Blocks reader;
    private long headerEnd;
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
        reader = opened(new Blocks(stored, new GenericDatumReader<>(null, null, types)));
        headerEnd = reader.previousSync();
        if (piece.start() > 0) {
            reader.sync(piece.start());
            first = reader.previousSync();
        }
    }

    @Override
    boolean row() throws IOException {
        ended |= !hasRow();
        if (ended) {
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

    /** Goes to the next block of this piece that holds something. Avro's reader takes one that holds nothing for the end of the file, as it does a block that is cut off. */
    private boolean hasRow() throws IOException {
        while (!ended && !reader.pastSync(piece.end()) && reader.previousSync() < piece.size()) {
            if (reader.hasNext()) {
                return true;
            }
            if (!reader.passEmpty() || !isMark(reader.previousSync())) {
                throw new EOFException("it is cut off: its last block has no end");
            }
        }
        return false;
    }

    /** Whether the mark that ends blocks lies in front of a place. */
    private boolean isMark(long end) throws IOException {
        byte[] mark = new byte[DataFileConstants.SYNC_SIZE];
        byte[] found = new byte[DataFileConstants.SYNC_SIZE];
        long at = stored.getPos();
        stored.seekable().readFully(headerEnd - mark.length, mark);
        stored.seekable().readFully(end - found.length, found);
        stored.seek(at);
        return Arrays.equals(mark, found);
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

    private static final class Blocks extends DataFileReader<Object> {
        Blocks(Content.Stored stored, DatumReader<Object> values) throws IOException {
            super(stored, values);
        }

        /** Behind a block without objects, of which hasNext() was false; false if it has some. */
        boolean passEmpty() throws IOException {
            long before = previousSync();
            blockFinished();
            return getBlockCount() == 0 && previousSync() > before;
        }
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
