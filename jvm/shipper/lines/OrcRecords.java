package shipper.lines;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
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

/** The rows of an ORC file. A stripe belongs to the piece that its first byte lies in, which is ORC's own rule. */
final class OrcRecords extends TableRecords {
    private final Configuration conf;
    private final List<Content.Stored> opened = new ArrayList<>();
    private Reader reader;
    private RecordReader rows;
    private VectorizedRowBatch batch;
    private TypeDescription schema;
    private int at;
    private long taken;
    private long left;

    OrcRecords(Piece piece, int maxLine, Configuration conf) {
        super(piece, maxLine);
        this.conf = conf;
    }

    @Override
    void begin() throws IOException {
        Path path = new Path(piece.path());
        FileSystem seen = new Watched(Content.fileSystem(path, conf));
        reader = OrcFile.createReader(
                path, OrcFile.readerOptions(conf).filesystem(seen).maxLength(piece.size()).useUTCTimestamp(true).convertToProlepticGregorian(true));
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
        rows = reader.rows(reader.options().range(piece.start(), piece.end() - piece.start()));
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
            json.openObject();
            json.name("value");
            value(schema, batch.cols[0], at++);
            json.closeObject();
        }
        return true;
    }

    private static boolean isNull(ColumnVector vector, int row) {
        return !vector.noNulls && vector.isNull[vector.isRepeating ? 0 : row];
    }

    private void struct(TypeDescription type, ColumnVector[] vectors, int row) {
        json.openObject();
        for (int i = 0; i < vectors.length; i++) {
            if (!isNull(vectors[i], row)) {
                json.name(type.getFieldNames().get(i));
                value(type.getChildren().get(i), vectors[i], row);
            }
        }
        json.closeObject();
    }

    private void value(TypeDescription type, ColumnVector vector, int of) {
        if (isNull(vector, of)) {
            json.nothing();
            return;
        }
        int row = vector.isRepeating ? 0 : of;
        switch (type.getCategory()) {
            case BOOLEAN -> json.truth(((LongColumnVector) vector).vector[row] != 0);
            case BYTE, SHORT, INT, LONG -> json.number(((LongColumnVector) vector).vector[row]);
            case DATE -> json.date(((LongColumnVector) vector).vector[row]);
            case FLOAT -> json.number((float) ((DoubleColumnVector) vector).vector[row]);
            case DOUBLE -> json.number(((DoubleColumnVector) vector).vector[row]);
            case DECIMAL -> json.number(
                    ((DecimalColumnVector) vector).vector[row].getHiveDecimal().bigDecimalValue().setScale(type.getScale()));
            case TIMESTAMP, TIMESTAMP_INSTANT -> {
                TimestampColumnVector times = (TimestampColumnVector) vector;
                long seconds = Math.floorDiv(times.time[row], 1000L);
                int nanos = times.nanos[row];
                if (nanos < 0) { // Arrow cuts a time before 1970 towards zero, and the rest of it is below zero
                    seconds = (times.time[row] - nanos / 1_000_000) / 1000 - 1;
                    nanos += 1_000_000_000;
                }
                json.timestampAt(seconds, nanos, type.getCategory() == TypeDescription.Category.TIMESTAMP_INSTANT);
            }
            case STRING, CHAR, VARCHAR -> {
                BytesColumnVector texts = (BytesColumnVector) vector;
                json.string(texts.vector[row], texts.start[row], texts.length[row]);
            }
            case BINARY -> {
                BytesColumnVector texts = (BytesColumnVector) vector;
                json.base64(Arrays.copyOfRange(texts.vector[row], texts.start[row], texts.start[row] + texts.length[row]));
            }
            case LIST -> {
                ListColumnVector list = (ListColumnVector) vector;
                json.openArray();
                for (long i = list.offsets[row]; i < list.offsets[row] + list.lengths[row]; i++) {
                    value(type.getChildren().get(0), list.child, (int) i);
                }
                json.closeArray();
            }
            case MAP -> {
                MapColumnVector map = (MapColumnVector) vector;
                json.openObject();
                for (long i = map.offsets[row]; i < map.offsets[row] + map.lengths[row]; i++) {
                    json.nameNext();
                    value(type.getChildren().get(0), map.keys, (int) i);
                    value(type.getChildren().get(1), map.values, (int) i);
                }
                json.closeObject();
            }
            case STRUCT -> struct(type, ((StructColumnVector) vector).fields, row);
            case UNION -> {
                UnionColumnVector union = (UnionColumnVector) vector;
                value(type.getChildren().get(union.tags[row]), union.fields[union.tags[row]], row);
            }
            default -> throw new IllegalArgumentException("a column of type " + type.getCategory());
        }
    }

    @Override
    public long stored() {
        return taken;
    }

    @Override
    public void close() throws IOException {
        try {
            if (rows != null) {
                rows.close();
            }
            if (reader != null) {
                reader.close();
            }
        } finally {
            for (Content.Stored one : opened) {
                one.close();
            }
        }
    }

    /** Opens the file as every other format is opened. */
    private final class Watched extends FilterFileSystem {
        Watched(FileSystem fs) {
            super(fs);
        }

        @Override
        public FSDataInputStream open(Path path, int buffer) throws IOException {
            Content.Stored stored = Content.open(piece, conf);
            opened.add(stored);
            return stored.seekable();
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
