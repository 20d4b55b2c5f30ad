package shipper.lines;

import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayDeque;
import java.util.Deque;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.io.IOUtils;
import org.apache.hadoop.io.Text;

/**
 * The records of one piece, one after the other. Of each format there is one implementation, and whatever comes after it (marks, quarantine, the
 * ledger) knows none of them: docs/adr/0020.
 */
abstract class PieceRecords implements Closeable {
    final Piece piece;
    final int maxLine;
    final Configuration conf;
    Content.Stored stored;
    /** The record as far as the longest one allowed; one byte more says that it is too long. */
    final Text record = new Text();
    /** Bytes of the record, with those that {@link #keep} left out. */
    long length;
    long unpacked;
    /** The content, where it is read from its beginning to its end. */
    Summed whole;
    private final Deque<Closeable> opened = new ArrayDeque<>();

    PieceRecords(Piece piece, int maxLine, Configuration conf) {
        this.piece = piece;
        this.maxLine = maxLine;
        this.conf = conf;
    }

    /** Opens the file, and goes in front of the first record. */
    void begin() throws IOException {
        stored = opened(Content.open(piece, conf));
    }

    /** Goes to the next record; false if there is none. */
    abstract boolean next() throws IOException;

    /** The record's bytes; valid until the next one. */
    final byte[] bytes() {
        return record.getBytes();
    }

    /** How many of the bytes are the record's: of one that is too long, some of it. */
    final int size() {
        return record.getLength();
    }

    boolean tooLong() {
        return size() > maxLine;
    }

    /** How many more records the last one may be: it is a row of CSV that is none, and has so many line ends inside of quotes. */
    long swallowed() {
        return 0;
    }

    /** Bytes of the file that this piece accounts for: those of all its pieces are its size. -1 where nobody can say: pieces of bzip2 overlap. */
    long stored() {
        return piece.format().equals("bzip2") ? -1 : stored.count() - (piece.format().equals("plain") ? piece.from() : 0);
    }

    /** The sum of the content that this piece accounts for: those of a file's pieces make up that of the file. To be asked at the piece's end. */
    Sum sum() throws IOException {
        return whole == null ? new Sum() : whole.sum();
    }

    /** Zeros behind what is packed, as far as was read. */
    long padding() {
        return stored == null ? 0 : stored.padding();
    }

    /** Bytes of the records so far, each with one for its end. */
    final long unpacked() {
        return unpacked;
    }

    /** All that was wanted of the file has been read: what fails now is passed over. */
    @Override
    public final void close() {
        IOUtils.closeStreams(opened.toArray(new Closeable[0]));
    }

    /** The same, to be closed with the records; what was opened last is closed first. */
    final <T extends Closeable> T opened(T one) {
        opened.push(one);
        return one;
    }

    /** The file's content from its beginning to its end, unpacked; null if another piece has it. */
    final InputStream content() throws IOException {
        if (piece.start() > piece.from()) {
            return null; // what unpacks snappy and lz4 would read the header again, which counts
        }
        if (piece.format().equals("bzip2")) {
            Bzip2Blocks.check(stored);
            stored.seek(0);
        }
        whole = opened(new Summed(Content.unpacked(stored, piece.format(), conf), piece.from()));
        return whole;
    }

    /** The same as text in UTF-8. */
    final InputStream text(Framing framing) throws IOException {
        InputStream content = content();
        return content == null || framing.isUtf8() ? content : new Utf8(content, framing.charset());
    }

    final void clear() {
        record.clear();
        length = 0;
    }

    /** Appends to the record as much as it has room for. */
    final void keep(byte[] bytes, int start, int count) {
        record.append(bytes, start, (int) Math.min(count, maxLine + 1L - record.getLength()));
        length += count;
    }

    static PieceRecords open(Piece piece, LineSource.Limits limits, Configuration conf) throws IOException {
        PieceRecords records = of(piece, limits.maxLine(), limits.framing(), conf);
        try {
            records.begin();
            return records;
        } catch (Throwable error) {
            records.close();
            throw error;
        }
    }

    private static PieceRecords of(Piece piece, int maxLine, Framing framing, Configuration conf) throws IOException {
        return switch (TableRecords.reads(piece.format()) ? piece.format() : framing.kind()) {
            case "parquet" -> new ParquetRecords(piece, maxLine, conf);
            case "orc" -> new OrcRecords(piece, maxLine, conf);
            case "avro" -> new AvroRecords(piece, maxLine, conf);
            case "lines" -> new PieceLines(piece, maxLine, framing, true, conf);
            case "starts_with" -> new StartedRecords(piece, maxLine, framing, conf);
            case "csv" -> new CsvRecords(piece, maxLine, framing, conf);
            case "whole_file" -> new WholeFile(piece, maxLine, conf);
            default -> throw new IOException("no reader for records of kind " + framing.kind());
        };
    }
}
