package shipper.lines;

import java.io.IOException;
import java.io.InputStream;
import org.apache.hadoop.conf.Configuration;

/** A file's content as one record, byte for byte. Memory is bounded by the longest record allowed. */
final class WholeFile extends PieceRecords {
    private InputStream in;

    WholeFile(Piece piece, int maxLine, Configuration conf) {
        super(piece, maxLine, conf);
    }

    @Override
    void begin() throws IOException {
        super.begin();
        in = content();
    }

    @Override
    boolean next() throws IOException {
        if (in == null || unpacked > 0) {
            return false;
        }
        byte[] buffer = new byte[64 * 1024];
        for (int n = in.read(buffer); n >= 0; n = in.read(buffer)) {
            keep(buffer, 0, n);
        }
        unpacked = length;
        return unpacked > 0;
    }
}
