package shipper.lines;

import java.io.IOException;
import java.io.InputStream;
import org.apache.hadoop.conf.Configuration;

/** A file's content as one record, byte for byte. Memory is bounded by the longest record allowed. */
final class WholeFile implements PieceRecords {
    private final Piece piece;
    private final int maxLine;
    private final Content.Stored stored;
    private final InputStream in;
    private final Kept content;
    private boolean done;

    WholeFile(Piece piece, int maxLine, Configuration conf) throws IOException {
        this.piece = piece;
        this.maxLine = maxLine;
        content = new Kept(maxLine + 1L);
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
            content.add(buffer, n);
        }
        return content.size() > 0;
    }

    @Override
    public byte[] bytes() {
        return content.bytes();
    }

    @Override
    public int size() {
        return content.kept();
    }

    @Override
    public boolean tooLong() {
        return content.size() > maxLine;
    }

    @Override
    public long stored() {
        return Content.takenOf(stored, piece);
    }

    @Override
    public long unpacked() {
        return content.size();
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
