package shipper.lines;

import java.io.IOException;
import java.io.InputStream;
import java.util.Arrays;
import org.apache.hadoop.conf.Configuration;

/** A file's content as one record, byte for byte. Memory is bounded by the longest record allowed. */
final class WholeFile implements PieceRecords {
    private final Piece piece;
    private final int maxLine;
    private final Content.Stored stored;
    private final InputStream in;
    private byte[] bytes = new byte[64 * 1024];
    private int kept;
    private long size;
    private boolean done;

    WholeFile(Piece piece, int maxLine, Configuration conf) throws IOException {
        this.piece = piece;
        this.maxLine = maxLine;
        stored = Content.open(piece, conf);
        in = Content.fromStart(stored, piece, conf);
    }

    @Override
    public boolean next() throws IOException {
        if (done || in == null) {
            return false;
        }
        done = true;
        byte[] buffer = new byte[64 * 1024];
        for (int n = in.read(buffer); n >= 0; n = in.read(buffer)) {
            size += n;
            int more = (int) Math.min(n, maxLine + 1L - kept);
            if (kept + more > bytes.length) {
                bytes = Arrays.copyOf(bytes, (int) Math.min(Math.max(bytes.length * 2L, kept + more), Integer.MAX_VALUE - 8));
            }
            System.arraycopy(buffer, 0, bytes, kept, more);
            kept += more;
        }
        return size > 0;
    }

    @Override
    public byte[] bytes() {
        return bytes;
    }

    @Override
    public int size() {
        return kept;
    }

    @Override
    public boolean tooLong() {
        return size > maxLine;
    }

    @Override
    public long stored() {
        return Content.takenOf(stored, piece);
    }

    @Override
    public long unpacked() {
        return size;
    }

    @Override
    public void close() throws IOException {
        try {
            if (in != null) {
                in.close();
            }
        } finally {
            stored.close();
        }
    }
}
