package shipper.lines;

import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import org.xerial.snappy.Snappy;

/**
 * Snappy as Hadoop's SnappyCodec writes it: blocks, each with its length unpacked and then, until that is reached, chunks with their length. Nothing in
 * it says what it is, and there are no checksums. Hadoop's own reader takes what is cut off between two blocks, or in a length, for the end.
 */
final class HadoopSnappy extends InputStream {
    /** Writers use 256 kB. What claims more is something else. */
    private static final int LARGEST = 64 * 1024 * 1024;

    private final DataInputStream in;
    private byte[] chunk = new byte[0];
    private byte[] content = new byte[0];
    private int at;
    private int end;
    private int left;

    HadoopSnappy(InputStream stored) {
        in = new DataInputStream(stored);
    }

    @Override
    public int read() throws IOException {
        return fill() ? content[at++] & 0xff : -1;
    }

    @Override
    public int read(byte[] bytes, int offset, int length) throws IOException {
        if (!fill()) {
            return -1;
        }
        int count = Math.min(length, end - at);
        System.arraycopy(content, at, bytes, offset, count);
        at += count;
        return count;
    }

    private boolean fill() throws IOException {
        while (at == end) {
            while (left == 0) {
                int first = in.read();
                if (first < 0) {
                    return false;
                }
                left = sound(first << 24 | in.readUnsignedByte() << 16 | in.readUnsignedByte() << 8 | in.readUnsignedByte());
            }
            int length = sound(in.readInt());
            if (chunk.length < length) {
                chunk = new byte[length];
            }
            if (in.readNBytes(chunk, 0, length) < length) {
                throw new EOFException("it is cut off: its last block is not whole");
            }
            int unpacked = Snappy.uncompressedLength(chunk, 0, length);
            if (unpacked < 0 || unpacked > left) {
                throw new IOException("a block is damaged, or it is no file of Hadoop's snappy");
            }
            if (content.length < unpacked) {
                content = new byte[unpacked];
            }
            at = 0;
            end = Snappy.uncompress(chunk, 0, length, content, 0);
            left -= end;
        }
        return true;
    }

    private static int sound(int length) throws IOException {
        if (length < 0 || length > LARGEST) {
            throw new IOException("a block is damaged, or it is no file of Hadoop's snappy");
        }
        return length;
    }

    @Override
    public void close() throws IOException {
        in.close();
    }
}
