package shipper.lines;

import java.io.EOFException;
import java.io.IOException;
import org.apache.hadoop.io.compress.DecompressorStream;
import org.apache.hadoop.io.compress.zlib.BuiltInGzipDecompressor;

/** Members of gzip one behind the other, and what lies behind the last one. */
final class GzipMembers extends DecompressorStream {
    private static final byte BEGINS = 0x1f;

    private final Content.Stored stored;
    /** Bytes in the buffer. */
    private int filled;

    GzipMembers(Content.Stored stored, int bufferBytes) throws IOException {
        super(stored, new BuiltInGzipDecompressor(), bufferBytes);
        this.stored = stored;
    }

    @Override
    protected int decompress(byte[] bytes, int offset, int length) throws IOException {
        for (int n = unpack(bytes, offset, length); ; n = unpack(bytes, offset, length)) {
            if (n > 0) {
                return n;
            }
            boolean ended = decompressor.finished();
            int left = ended ? decompressor.getRemaining() : 0;
            int from = filled - left;
            if (left == 0) {
                from = 0;
                filled = left = getCompressedData();
            }
            if (left < 0 && !ended) {
                throw new EOFException("it is cut off: its gzip content has no end");
            }
            if (ended && (left < 0 || buffer[from] != BEGINS)) {
                if (left > 0) {
                    stored.readPadding(buffer, from, from + left, "gzip");
                }
                eof = true;
                return -1;
            }
            if (ended) {
                decompressor.reset();
            }
            decompressor.setInput(buffer, from, left);
        }
    }

    private int unpack(byte[] bytes, int offset, int length) throws IOException {
        try {
            return decompressor.decompress(bytes, offset, length);
        } catch (IOException error) {
            throw new IOException("its gzip content is damaged: " + error.getMessage());
        }
    }
}
