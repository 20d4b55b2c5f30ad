package shipper.lines;

import java.io.IOException;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.UUID;
import org.apache.avro.LogicalType;
import org.apache.avro.LogicalTypes;
import org.apache.avro.Schema;
import org.apache.avro.UnresolvedUnionException;
import org.apache.avro.file.DataFileReader;
import org.apache.avro.file.SeekableInput;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericFixed;
import org.apache.avro.generic.IndexedRecord;
import org.apache.avro.util.Utf8;
import org.apache.hadoop.conf.Configuration;

/**
 * The values of an Avro file (an object container file). A block belongs to the piece in which the mark in front of it begins, so the first piece has
 * the file's header too. What is no record is an object with the one field `value`.
 */
final class AvroRecords extends TableRecords {
    /** Times and dates of a schema by name: {units per second, whether it is a moment}; a day has none. */
    private static final Map<String, long[]> TIMESTAMPS = new HashMap<>();

    static {
        long[] perSecond = {1_000L, 1_000_000L, 1_000_000_000L};
        String[] units = {"millis", "micros", "nanos"};
        for (int i = 0; i < units.length; i++) {
            TIMESTAMPS.put("timestamp-" + units[i], new long[] {perSecond[i], 1});
            TIMESTAMPS.put("local-timestamp-" + units[i], new long[] {perSecond[i], 0});
        }
    }

    private final Content.Stored stored;
    private DataFileReader<Object> reader;
    private Schema schema;
    private Object reused;
    private long first;
    private boolean ended;

    AvroRecords(Piece piece, int maxLine, Configuration conf) throws IOException {
        super(piece, maxLine);
        stored = Content.open(piece, conf);
    }

    @Override
    void begin() throws IOException {
        GenericData plain = new GenericData(); // knows no logical type: they are written from what is stored
        reader = new DataFileReader<>(new Input(), new GenericDatumReader<>(null, null, plain));
        schema = reader.getSchema();
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
        if (schema.getType() == Schema.Type.RECORD) {
            value(schema, reused);
        } else {
            json.openObject();
            json.name("value");
            value(schema, reused);
            json.closeObject();
        }
        return true;
    }

    private void value(Schema type, Object value) {
        switch (type.getType()) {
            case RECORD -> record(type, (IndexedRecord) value);
            case UNION -> value(type.getTypes().get(branch(type, value)), value);
            case ARRAY -> {
                json.openArray();
                for (Object one : (Collection<?>) value) {
                    value(type.getElementType(), one);
                }
                json.closeArray();
            }
            case MAP -> {
                json.openObject();
                for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                    json.name(entry.getKey().toString());
                    value(type.getValueType(), entry.getValue());
                }
                json.closeObject();
            }
            case NULL -> json.nothing();
            case BOOLEAN -> json.truth((Boolean) value);
            case FLOAT -> json.number((Float) value);
            case DOUBLE -> json.number((Double) value);
            case INT, LONG -> number(type.getLogicalType(), ((Number) value).longValue());
            case ENUM -> json.string(value.toString());
            case STRING -> text(value);
            case BYTES -> bytes(type.getLogicalType(), copied((ByteBuffer) value));
            case FIXED -> bytes(type.getLogicalType(), ((GenericFixed) value).bytes());
        }
    }

    private static int branch(Schema union, Object value) {
        try {
            return GenericData.get().resolveUnion(union, value);
        } catch (UnresolvedUnionException error) {
            throw new IllegalStateException("a value has none of the types of its union"); // theirs quotes the value
        }
    }

    private void record(Schema type, IndexedRecord record) {
        json.openObject();
        for (Schema.Field field : type.getFields()) {
            if (record.get(field.pos()) != null) {
                json.name(field.name());
                value(field.schema(), record.get(field.pos()));
            }
        }
        json.closeObject();
    }

    private void text(Object value) {
        if (value instanceof Utf8 utf8) {
            json.string(utf8.getBytes(), 0, utf8.getByteLength());
        } else {
            json.string(value.toString());
        }
    }

    private void number(LogicalType kind, long number) {
        String name = kind == null ? "" : kind.getName();
        long[] timestamp = TIMESTAMPS.get(name);
        if (timestamp != null) {
            json.timestamp(number, timestamp[0], timestamp[1] == 1);
        } else if (name.equals("date")) {
            json.date(number);
        } else if (name.equals("time-millis")) {
            json.time(number, 1_000L);
        } else if (name.equals("time-micros")) {
            json.time(number, 1_000_000L);
        } else {
            json.number(number);
        }
    }

    private void bytes(LogicalType kind, byte[] content) {
        if (kind instanceof LogicalTypes.Decimal decimal) {
            json.number(new BigDecimal(new BigInteger(content), decimal.getScale()));
        } else if (kind != null && kind.getName().equals("uuid") && content.length == 16) {
            ByteBuffer parts = ByteBuffer.wrap(content);
            json.string(new UUID(parts.getLong(), parts.getLong()).toString());
        } else {
            json.base64(content);
        }
    }

    private static byte[] copied(ByteBuffer buffer) {
        byte[] found = new byte[buffer.remaining()];
        buffer.duplicate().get(found);
        return found;
    }

    /** From the mark in front of its first block to the one in front of the next piece's. */
    @Override
    public long stored() {
        return reader == null ? 0 : Math.max(0, reader.previousSync() - first);
    }

    @Override
    public void close() throws IOException {
        try {
            if (reader != null) {
                reader.close();
            }
        } finally {
            stored.close();
        }
    }

    private final class Input implements SeekableInput {
        @Override
        public void seek(long position) throws IOException {
            stored.seek(position);
        }

        @Override
        public long tell() throws IOException {
            return stored.getPos();
        }

        @Override
        public long length() {
            return piece.size();
        }

        @Override
        public int read(byte[] bytes, int offset, int length) throws IOException {
            return stored.read(bytes, offset, length);
        }

        @Override
        public void close() throws IOException {
            stored.close();
        }
    }
}
