package shipper.lines;

import java.io.IOException;
import java.time.LocalDate;
import java.util.Arrays;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FilterFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.ql.exec.vector.BytesColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.ColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.DecimalColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.DoubleColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.ListColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.LongColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.MapColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.StructColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.TimestampColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.UnionColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.VectorizedRowBatch;
import org.apache.orc.OrcFile;
import org.apache.orc.Reader;
import org.apache.orc.RecordReader;
import org.apache.orc.StripeInformation;
import org.apache.orc.TypeDescription;
import org.apache.spark.unsafe.types.UTF8String;

/** The rows of an ORC file. A stripe belongs to the piece that its first byte lies in, which is ORC's own rule. */
final class OrcRecords extends TableRecords {
    private RecordReader rows;
    private VectorizedRowBatch batch;
    private TypeDescription schema;
    private int at;
    private long taken;
    private long left;

    OrcRecords(Piece piece, int maxLine, Configuration conf) throws IOException {
        super(piece, maxLine, conf);
    }

    @Override
    void begin() {
        // ORC opens the file, more than once.
    }

    @Override
    void header() throws IOException {
        Path path = new Path(piece.path());
        FileSystem seen = new Watched(Content.fileSystem(path, conf));
        Reader reader = opened(OrcFile.createReader(
                path, OrcFile.readerOptions(conf).filesystem(seen).maxLength(piece.size()).useUTCTimestamp(true).convertToProlepticGregorian(true)));
        schema = reader.getSchema();
        taken = piece.start() == 0 ? piece.size() : 0;
        for (StripeInformation stripe : reader.getStripes()) {
            if (holds(stripe.getOffset())) {
                left += stripe.getNumberOfRows();
                taken += piece.start() == 0 ? 0 : stripe.getLength();
            } else if (piece.start() == 0) {
                taken -= stripe.getLength();
            }
        }
        batch = schema.createRowBatch();
        rows = opened(reader.rows(reader.options().range(piece.start(), piece.end() - piece.start())));
    }

    @Override
    boolean row() throws IOException {
        while (at == batch.size) {
            at = 0;
            if (!rows.nextBatch(batch)) {
                if (left != 0) {
                    throw new IOException("it has not the rows that its footer says");
                }
                return false;
            }
        }
        left--;
        if (schema.getCategory() == TypeDescription.Category.STRUCT) {
            struct(schema, batch.cols, at++);
        } else {
            json.writeStartObject();
            json.writeFieldName("value");
            value(schema, batch.cols[0], at++);
            json.writeEndObject();
        }
        return true;
    }

    private static boolean isNull(ColumnVector vector, int row) {
        return !vector.noNulls && vector.isNull[vector.isRepeating ? 0 : row];
    }

    private void struct(TypeDescription type, ColumnVector[] vectors, int row) throws IOException {
        json.writeStartObject();
        for (int i = 0; i < vectors.length; i++) {
            if (!isNull(vectors[i], row)) {
                json.writeFieldName(type.getFieldNames().get(i));
                value(type.getChildren().get(i), vectors[i], row);
            }
        }
        json.writeEndObject();
    }

    private void value(TypeDescription type, ColumnVector vector, int row) throws IOException {
        int at = vector.isRepeating ? 0 : row;
        if (isNull(vector, row)) {
            json.writeNull();
        } else if (vector instanceof StructColumnVector struct) {
            struct(type, struct.fields, at);
        } else if (vector instanceof ListColumnVector list) {
            json.writeStartArray();
            for (int i = (int) list.offsets[at]; i < list.offsets[at] + list.lengths[at]; i++) {
                value(type.getChildren().get(0), list.child, i);
            }
            json.writeEndArray();
        } else if (vector instanceof MapColumnVector map) {
            json.writeStartObject();
            for (int i = (int) map.offsets[at]; i < map.offsets[at] + map.lengths[at]; i++) {
                json.name(scalar(type.getChildren().get(0), map.keys, i));
                value(type.getChildren().get(1), map.values, i);
            }
            json.writeEndObject();
        } else if (vector instanceof UnionColumnVector union) {
            int tag = union.tags[at];
            value(type.getChildren().get(tag), union.fields[tag], at);
        } else {
            json.value(scalar(type, vector, row));
        }
    }

    private static Object scalar(TypeDescription type, ColumnVector vector, int row) {
        int at = vector.isRepeating ? 0 : row;
        if (isNull(vector, row)) {
            return null;
        }
        return switch (type.getCategory()) {
            case BOOLEAN -> ((LongColumnVector) vector).vector[at] != 0;
            case BYTE, SHORT, INT, LONG -> ((LongColumnVector) vector).vector[at];
            case DATE -> LocalDate.ofEpochDay(((LongColumnVector) vector).vector[at]);
            case FLOAT -> (float) ((DoubleColumnVector) vector).vector[at];
            case DOUBLE -> ((DoubleColumnVector) vector).vector[at];
            case DECIMAL -> ((DecimalColumnVector) vector).vector[at].getHiveDecimal().bigDecimalValue().setScale(type.getScale());
            case TIMESTAMP, TIMESTAMP_INSTANT -> {
                TimestampColumnVector times = (TimestampColumnVector) vector;
                long seconds = Math.floorDiv(times.time[at], 1000L);
                int nanos = times.nanos[at];
                if (nanos < 0) { // Arrow cuts a time before 1970 towards zero, and the rest of it is below zero
                    seconds = (times.time[at] - nanos / 1_000_000) / 1000;
                }
                yield Json.timestampAt(seconds, nanos, type.getCategory() == TypeDescription.Category.TIMESTAMP_INSTANT);
            }
            case STRING, CHAR, VARCHAR -> {
                BytesColumnVector texts = (BytesColumnVector) vector;
                yield UTF8String.fromBytes(texts.vector[at], texts.start[at], texts.length[at]);
            }
            case BINARY -> {
                BytesColumnVector texts = (BytesColumnVector) vector;
                yield Arrays.copyOfRange(texts.vector[at], texts.start[at], texts.start[at] + texts.length[at]);
            }
            default -> throw new IllegalArgumentException("a column of type " + type.getCategory());
        };
    }

    @Override
    long stored() {
        return taken;
    }

    /** Opens the file as every other format is opened. */
    private final class Watched extends FilterFileSystem {
        Watched(FileSystem fs) {
            super(fs);
        }

        @Override
        public FSDataInputStream open(Path path, int buffer) throws IOException {
            return opened(Content.open(piece, conf)).seekable();
        }

        @Override
        public FSDataInputStream open(Path path) throws IOException {
            return open(path, 0);
        }

        @Override
        public void close() {
            // It is not ours: others have it too.
        }
    }
}
