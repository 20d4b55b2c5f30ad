package shipper.lines;

import java.io.IOException;
import java.io.InputStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Seekable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.io.compress.SplitCompressionInputStream;
import org.apache.hadoop.io.compress.SplittableCompressionCodec;
import org.apache.hadoop.mapreduce.lib.input.CompressedSplitLineReader;
import org.apache.hadoop.util.LineReader;

/**
 * The lines of one piece, cut at '\n' alone, exactly as Spark's text source with `lineSep` cuts them: a line belongs to the piece in which it
 * begins, one that begins at a piece's very end to that piece. A byte order mark at the beginning of a file is not part of its first line.
 *
 * <p>Memory is bounded by the longest line allowed, whatever a file unpacks to: of a longer line only the beginning is kept.
 */
final class PieceLines implements PieceRecords {
    private static final byte[] LINE_END = {'\n'};
    private static final int BUFFER = 64 * 1024;

    private final Piece piece;
    private final int maxLine;
    private final Text text = new Text();
    private final Content.Stored stored;
    private LineReader lines;
    private Seekable packedPosition;
    private long position;
    private long end;
    private boolean first;
    private long unpacked;
    /** Somebody who does not share the reader's code has seen blocks in the file. */
    private boolean hasBlocks;

    PieceLines(Piece piece, int maxLine, Configuration conf) throws IOException {
        this.piece = piece;
        this.maxLine = maxLine;
        stored = Content.open(piece, conf);
        try {
            begin(conf);
        } catch (Throwable error) {
            stored.close();
            throw error;
        }
    }

    private void begin(Configuration conf) throws IOException {
        first = piece.start() == 0;
        position = piece.start();
        end = piece.end();
        if (piece.format().equals("plain")) {
            stored.seek(position);
            lines = new NewlineReader(stored, BUFFER);
            if (position > 0) {
                // A line that goes over the whole piece is not read to its end by each piece that it goes over.
                position += lines.readLine(text, 0, (int) Math.min(end - position + 1, Integer.MAX_VALUE));
            }
        } else if (piece.format().equals("bzip2")) {
            if (first) {
                hasBlocks = Bzip2Blocks.check(stored) > 0;
            }
            beginBzip2(conf);
        } else if (first) {
            end = Long.MAX_VALUE;
            lines = new NewlineReader(Content.unpacked(stored, piece.format(), conf), BUFFER);
        } else {
            end = -1; // the first piece has it all; what unpacks snappy and lz4 would read the header again, which counts
        }
    }

    /** From block to block. What is no block is passed over, hence the check before, by whoever reads the first piece of a file. */
    private void beginBzip2(Configuration conf) throws IOException {
        SplitCompressionInputStream in = Content.bzip2(conf).createInputStream(
                stored.seekable(), null, piece.start(), end, SplittableCompressionCodec.READ_MODE.BYBLOCK);
        lines = new CompressedSplitLineReader(in, conf, LINE_END);
        packedPosition = in;
        end = in.getAdjustedEnd();
        if (in.getAdjustedStart() != 0) {
            lines.readLine(text, 0, Integer.MAX_VALUE);
        }
    }

    @Override
    public boolean next() throws IOException {
        if (!mayHaveMore()) {
            return atEnd();
        }
        int room = maxLine == Integer.MAX_VALUE ? maxLine : maxLine + 1 + (first ? 3 : 0);
        int read = lines.readLine(text, room, Integer.MAX_VALUE);
        position += read;
        unpacked += read;
        int length = read;
        if (first) {
            first = false;
            byte[] bytes = text.getBytes();
            if (text.getLength() >= 3 && bytes[0] == (byte) 0xEF && bytes[1] == (byte) 0xBB && bytes[2] == (byte) 0xBF) {
                text.set(text.copyBytes(), 3, text.getLength() - 3);
                length -= 3;
            }
        }
        return length > 0 || atEnd();
    }

    private boolean atEnd() throws IOException {
        if (hasBlocks && unpacked == 0) {
            throw new IOException("its blocks unpacked to nothing");
        }
        return false;
    }

    private boolean mayHaveMore() throws IOException {
        if (packedPosition != null) {
            return packedPosition.getPos() <= end || ((CompressedSplitLineReader) lines).needAdditionalRecordAfterSplit();
        }
        return position <= end;
    }

    @Override
    public byte[] bytes() {
        return text.getBytes();
    }

    /** Of a line that is too long, more than the longest allowed. */
    @Override
    public int size() {
        return text.getLength();
    }

    @Override
    public boolean tooLong() {
        return text.getLength() > maxLine;
    }

    @Override
    public long stored() {
        return packedPosition != null ? -1 : stored.count();
    }

    @Override
    public long unpacked() {
        return unpacked;
    }

    @Override
    public void close() throws IOException {
        try {
            if (lines != null) {
                lines.close(); // frees what libraries hold outside the heap
            }
        } finally {
            stored.close();
        }
    }
}
