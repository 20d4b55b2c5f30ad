package shipper.lines;

import java.io.Closeable;
import java.io.IOException;
import org.apache.hadoop.conf.Configuration;

/**
 * The records of one piece, one after the other. Of each format there is one implementation, and whatever comes after it (marks, quarantine, the
 * ledger) knows none of them: docs/adr/0020.
 */
interface PieceRecords extends Closeable {
    /** Goes to the next record; false if there is none. */
    boolean next() throws IOException;

    /** The record's bytes; valid until the next one. */
    byte[] bytes();

    /** How many of the bytes are the record's: of one that is too long, some of it. */
    int size();

    boolean tooLong();

    /** How many more records the last one may be: it is a row of CSV that is none, and has so many line ends inside of quotes. */
    default long swallowed() {
        return 0;
    }

    /** Bytes of the file that this piece accounts for: those of all its pieces are its size. -1 where nobody can say. */
    long stored();

    /** Bytes of the records so far, each with one for its end. */
    long unpacked();

    static PieceRecords open(Piece piece, LineSource.Limits limits, Configuration conf) throws IOException {
        switch (piece.format()) {
            case "parquet":
                return new ParquetRecords(piece, limits.maxLine(), conf);
            case "orc":
                return new OrcRecords(piece, limits.maxLine(), conf);
            case "avro":
                return new AvroRecords(piece, limits.maxLine(), conf);
            default:
                break;
        }
        Framing framing = limits.framing();
        switch (framing.kind()) {
            case "lines":
                return new PieceLines(piece, limits.maxLine(), conf);
            case "starts_with":
                return new StartedRecords(piece, limits.maxLine(), framing.startsWith(), conf);
            case "csv":
                return new CsvRecords(piece, limits.maxLine(), framing, conf);
            case "whole_file":
                return new WholeFile(piece, limits.maxLine(), conf);
            default:
                throw new IOException("no reader for records of kind " + framing.kind());
        }
    }
}
