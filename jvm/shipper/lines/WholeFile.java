package shipper.lines;

import java.io.IOException;
import java.io.InputStream;
import org.apache.hadoop.conf.Configuration;

/** A file's content as one record, byte for byte. Memory is bounded by the longest record allowed. */
final class WholeFile extends KeptRecords {
    private final Content.Stored stored;
    private final InputStream in;
    private boolean done;

    WholeFile(Piece piece, int maxLine, Configuration conf) throws IOException {
        super(piece, maxLine);
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
            kept.add(buffer, n);
        }
        unpacked = kept.size();
        return unpacked > 0;
    }

    @Override
    public long stored() {
        return Content.takenOf(stored, piece);
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
