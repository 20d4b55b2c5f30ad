package shipper.lines;

import java.io.IOException;
import java.io.InputStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Seekable;
import org.apache.hadoop.io.compress.SplitCompressionInputStream;
import org.apache.hadoop.io.compress.SplittableCompressionCodec;

/**
 * The lines of one piece, cut at '\n' alone, exactly as Spark's text source with `lineSep` cuts them: a line belongs to the piece in which it
 * begins, one that begins at a piece's very end to that piece. A byte order mark at the beginning of a file is not part of its first line. Text in another encoding
 * than UTF-8 is not cut.
 *
 * <p>Memory is bounded by the longest line allowed, whatever a file unpacks to: of a longer line only the beginning is kept.
 */
final class PieceLines extends PieceRecords {
    private static final int BUFFER = 64 * 1024;

    private final Framing framing;
    private final boolean cutsBzip2;
    private NewlineReader lines;
    private Seekable packedPosition;
    private long position;
    private long end;
    private boolean first;
    /** Somebody who does not share the reader's code has seen blocks in the file. */
    private boolean hasBlocks;

    /** @param cutsBzip2 whether bzip2 is read from block to block; else its first piece has all lines, as of all that is packed */
    PieceLines(Piece piece, int maxLine, Framing framing, boolean cutsBzip2, Configuration conf) {
        super(piece, maxLine, conf);
        this.framing = framing;
        this.cutsBzip2 = cutsBzip2;
    }

    @Override
    void begin() throws IOException {
        super.begin();
        first = piece.start() == 0;
        position = piece.start();
        end = piece.end();
        boolean isCut = framing.isUtf8();
        if (isCut && piece.format().equals("plain")) {
            stored.seek(position);
            lines = new NewlineReader(stored, BUFFER);
            if (position > piece.from()) {
                // A line that goes over the whole piece is not read to its end by each piece that it goes over.
                position += lines.readLine(record, 0, end - position + 1);
                lines.restart();
            }
        } else if (isCut && cutsBzip2 && piece.format().equals("bzip2") && piece.from() == 0) {
            beginBzip2();
        } else {
            InputStream in = text(framing);
            if (in != null) {
                in.skipNBytes(piece.from());
            }
            end = in == null ? -1 : Long.MAX_VALUE;
            lines = in == null ? null : new NewlineReader(in, BUFFER);
        }
    }

    /** From block to block. What is no block is passed over, hence the check before, by whoever reads the first piece of a file. */
    private void beginBzip2() throws IOException {
        hasBlocks = first && Bzip2Blocks.check(stored) > 0;
        SplitCompressionInputStream in = opened(Content.bzip2(conf).createInputStream(
                stored.seekable(), null, piece.start(), end, SplittableCompressionCodec.READ_MODE.BYBLOCK));
        lines = new NewlineReader(in, BUFFER);
        packedPosition = in;
        end = in.getAdjustedEnd();
        if (in.getAdjustedStart() != 0) {
            lines.readLine(record, 0, Long.MAX_VALUE);
            lines.restart();
        }
    }

    @Override
    boolean next() throws IOException {
        return mayHaveMore() && read() > 0 || atEnd();
    }

    /** Reads a line into `record`, wherever it begins. Returns its bytes with its end and without a byte order mark; 0 if there is none. */
    long read() throws IOException {
        int room = maxLine == Integer.MAX_VALUE ? maxLine : maxLine + 1 + (first ? 3 : 0);
        long read = lines.readLine(record, room, Long.MAX_VALUE);
        position += read;
        unpacked += read;
        if (!first) {
            return read;
        }
        first = false;
        byte[] bytes = record.getBytes();
        if (record.getLength() >= 3 && bytes[0] == (byte) 0xEF && bytes[1] == (byte) 0xBB && bytes[2] == (byte) 0xBF) {
            record.set(record.copyBytes(), 3, record.getLength() - 3);
            return read - 3;
        }
        return read;
    }

    private boolean atEnd() throws IOException {
        if (hasBlocks && unpacked == 0) {
            throw new IOException("its blocks unpacked to nothing");
        }
        return false;
    }

    @Override
    Sum sum() throws IOException {
        return whole == null && lines != null ? lines.sum() : super.sum();
    }

    /** The lines that were read belong to another piece. */
    void forget() {
        if (lines != null) {
            lines.restart();
        }
    }

    /** The next lines belong to this piece if they are taken. */
    void lookAhead() {
        lines.lookAhead();
    }

    void take() {
        lines.take();
    }

    boolean mayHaveMore() throws IOException {
        return (packedPosition == null ? position : packedPosition.getPos()) <= end;
    }
}
