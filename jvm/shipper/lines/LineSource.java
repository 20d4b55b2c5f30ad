package shipper.lines;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.util.CollectionAccumulator;
import org.apache.spark.util.SerializableConfiguration;

/**
 * A Spark source that reads the records of given pieces of files (lines, where nobody says otherwise), and nothing else: it lists no folder, expands no pattern and trusts no
 * suffix. `spark.read.format("shipper.lines.LineSource").option("read", id)`, with an id of {@link #begin}.
 */
public final class LineSource implements TableProvider {
    static final StructType SCHEMA = new StructType()
            .add("value", DataTypes.StringType)
            .add("file_path", DataTypes.StringType)
            .add("file_name", DataTypes.StringType)
            .add("split", DataTypes.LongType)
            .add("mark!", DataTypes.ByteType)
            .add("record_number", DataTypes.LongType)
            .add("split_start", DataTypes.LongType)
            .add("sizes!", DataTypes.StringType)
            .add("swallowed!", DataTypes.LongType)
            .add("block!", DataTypes.BinaryType)
            .add("ends!", DataTypes.BinaryType)
            .add("hashes!", DataTypes.BinaryType)
            .add("records!", DataTypes.LongType)
            .add("sum!", DataTypes.LongType);

    private static final AtomicLong IDS = new AtomicLong();
    private static final Map<String, Read> READS = new ConcurrentHashMap<>();

    /** What is read, how, and what the tasks that succeeded reported of it. Lives on the driver. */
    record Read(List<Piece> pieces, Limits limits, long partitionBytes, CollectionAccumulator<Report> reports) {}

    /**
     * Notes what a frame is to read. Returns the id for the option `read`. The session's SQL then knows {@link JsonObject}.
     *
     * @param packed see {@link Piece#unpack}
     * @param maxLine longest line in bytes
     * @param keep how many of the first bytes of a longer one become its value
     * @param framing see {@link Framing#unpack}
     * @param partitionBytes small pieces are read by one task, up to so many bytes
     * @param waitSeconds how long a file system that does not answer is waited for
     * @param ends whether each piece that could be read ends with a row that says so
     */
    public static String begin(
            SparkSession spark, byte[] packed, int maxLine, int keep, byte[] framing, long partitionBytes, long waitSeconds,
            boolean ends)
            throws IOException {
        JsonObject.register(spark);
        String id = Long.toString(IDS.incrementAndGet());
        READS.put(id, new Read(
                Piece.unpack(packed), new Limits(maxLine, keep, Framing.unpack(framing), ends, waitSeconds), partitionBytes,
                spark.sparkContext().collectionAccumulator("shipper pieces read")));
        return id;
    }

    /** Of the pieces that tasks that succeeded have read: see {@link Report#packed}. */
    public static String reports(String id) throws IOException {
        return Report.packed(READS.get(id).reports().value());
    }

    public static void end(String id) {
        READS.remove(id);
    }

    @Override
    public StructType inferSchema(CaseInsensitiveStringMap options) {
        return SCHEMA;
    }

    @Override
    public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
        return new Lines(properties.get("read"));
    }

    private record Lines(String id) implements Table, SupportsRead {
        @Override
        public String name() {
            return "lines";
        }

        @Override
        @SuppressWarnings("deprecation") // columns() builds on it
        public StructType schema() {
            return SCHEMA;
        }

        @Override
        public Set<TableCapability> capabilities() {
            return Set.of(TableCapability.BATCH_READ);
        }

        @Override
        public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
            return new LineScan(id);
        }
    }

    private static final class LineScan implements SupportsPushDownRequiredColumns, Scan, Batch {
        private final Read read;
        private StructType wanted = SCHEMA;

        LineScan(String id) {
            read = READS.get(id);
        }

        @Override
        public void pruneColumns(StructType required) {
            wanted = required;
        }

        @Override
        public Scan build() {
            return this;
        }

        @Override
        public StructType readSchema() {
            return wanted;
        }

        @Override
        public Batch toBatch() {
            return this;
        }

        @Override
        public String description() {
            return "shipper lines";
        }

        /** Neighbours share a partition as long as they are small, so that the order of the pieces is the order of the rows. */
        @Override
        public InputPartition[] planInputPartitions() {
            List<InputPartition> partitions = new ArrayList<>();
            List<Piece> together = new ArrayList<>();
            long bytes = 0;
            for (Piece piece : read.pieces()) {
                long size = piece.end() - piece.start();
                if (!together.isEmpty() && bytes + size > read.partitionBytes()) {
                    partitions.add(new Pieces(together.toArray(new Piece[0])));
                    together.clear();
                    bytes = 0;
                }
                together.add(piece);
                bytes += size;
            }
            if (!together.isEmpty()) {
                partitions.add(new Pieces(together.toArray(new Piece[0])));
            }
            return partitions.toArray(new InputPartition[0]);
        }

        @Override
        public PartitionReaderFactory createReaderFactory() {
            Configuration conf = Content.configured(SparkSession.active().sparkContext().hadoopConfiguration());
            return new ReaderFactory(wanted.fieldNames(), read.limits(), read.reports(), new SerializableConfiguration(conf));
        }
    }

    /** Several pieces that one task reads, one after the other. */
    record Pieces(Piece[] pieces) implements InputPartition {}

    /** See {@link #begin}. */
    record Limits(int maxLine, int keep, Framing framing, boolean ends, long waitSeconds) implements java.io.Serializable {}
}
