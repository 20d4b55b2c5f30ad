package shipper.lines;

import java.io.IOException;
import java.io.UncheckedIOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.util.CollectionAccumulator;
import org.apache.spark.util.SerializableConfiguration;

/** How many records pieces of files hold, read here and now: a sample is no work to wait for Spark for. */
public final class RecordCount {
    private RecordCount() {}

    /** See {@link Report#packed}. Parameters as of {@link LineSource#begin}. */
    public static String count(byte[] packed, int maxLine, byte[] framing, long waitSeconds, Configuration conf) throws IOException {
        LineSource.Limits limits = new LineSource.Limits(maxLine, 0, Framing.unpack(framing), false, waitSeconds);
        SerializableConfiguration configured = new SerializableConfiguration(Content.configured(conf));
        return Report.packed(Piece.unpack(packed).parallelStream().map(piece -> count(piece, limits, configured)).toList());
    }

    /** As often as a task would try it. */
    private static Report count(Piece piece, LineSource.Limits limits, SerializableConfiguration conf) {
        Report report = null;
        for (int tries = 0; tries < ReaderFactory.TRIES && (report == null || report.passing()); tries++) {
            CollectionAccumulator<Report> reports = new CollectionAccumulator<>();
            ReaderFactory factory = new ReaderFactory(new String[0], limits, reports, conf);
            try (PartitionReader<InternalRow> rows = factory.createReader(new LineSource.Pieces(new Piece[] {piece}))) {
                while (rows.next()) {
                    // The report has their number.
                }
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
            report = reports.value().get(0);
        }
        return report;
    }
}
