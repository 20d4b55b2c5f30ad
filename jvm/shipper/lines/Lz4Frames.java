package shipper.lines;

import java.io.ByteArrayInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.SequenceInputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import net.jpountz.lz4.LZ4FrameInputStream;
import org.apache.commons.compress.compressors.lz4.FramedLZ4CompressorInputStream;

/**
 * lz4 frames, one behind the other, as they unpack. Those whose blocks stand alone are lz4-java's to read, which is fast; it refuses the ones whose blocks
 * refer to what was in front of them (`lz4 -BD`, and the default of Python's, Arrow's and others' writers), which commons-compress reads.
 */
final class Lz4Frames extends InputStream {
    private static final int MAGIC = 0x184D2204, SKIPPABLE = 0x184D2A50, SKIPPABLE_MASK = 0xFFFFFFF0;
    private static final int STANDS_ALONE = 1 << 5, SIZE = 1 << 3;

    private final Content.Stored stored;
    private InputStream frame;
    /** Bytes that the frame has still to unpack to; -1 if it does not say, or if its reader holds them against it itself. */
    private long left = -1;

    Lz4Frames(Content.Stored stored) {
        this.stored = stored;
    }

    @Override
    public int read() throws IOException {
        return Content.one(this);
    }

    @Override
    public int read(byte[] bytes, int offset, int length) throws IOException {
        if (length == 0) {
            return 0;
        }
        while (true) {
            if (frame == null && !next()) {
                return -1;
            }
            int n = unpack(bytes, offset, length);
            if (n >= 0) {
                return n;
            }
            frame = null;
        }
    }

    @Override
    public void close() throws IOException {
        stored.close();
    }

    /** False at the end of the file. */
    private boolean next() throws IOException {
        byte[] head = stored.readNBytes(4);
        if (head.length == 0) {
            return false;
        }
        int magic = head[0] == 0 ? 0 : number(head);
        if ((magic & SKIPPABLE_MASK) == SKIPPABLE) {
            try {
                stored.skipNBytes(Integer.toUnsignedLong(number(stored.readNBytes(4))));
            } catch (EOFException error) {
                throw ended();
            }
            return next();
        }
        if (magic != MAGIC) {
            stored.readPadding(head, 0, head.length, "lz4");
            return false;
        }
        int flags = stored.read();
        if (flags < 0) {
            throw ended();
        }
        boolean alone = (flags & STANDS_ALONE) != 0;
        // The kind of its blocks, and how much it unpacks to: commons-compress reads that, and holds nothing against it.
        byte[] behind = stored.readNBytes(!alone && (flags & SIZE) != 0 ? 9 : 0);
        left = behind.length == 9 ? ByteBuffer.wrap(behind).order(ByteOrder.LITTLE_ENDIAN).getLong(1) : -1;
        byte[] begun = ByteBuffer.allocate(5 + behind.length).put(head).put((byte) flags).put(behind).array();
        InputStream whole = new SequenceInputStream(new ByteArrayInputStream(begun), stored);
        try {
            frame = alone ? new LZ4FrameInputStream(whole, true) : new FramedLZ4CompressorInputStream(whole);
        } catch (IOException e) {
            throw damaged(e);
        }
        return true;
    }

    private int unpack(byte[] bytes, int offset, int length) throws IOException {
        int n;
        try {
            n = frame.read(bytes, offset, length);
        } catch (IOException | RuntimeException e) {
            throw damaged(e);
        }
        if (left >= 0) {
            left -= Math.max(n, 0);
            if (left < 0 || n < 0 && left > 0) {
                throw new IOException("the size of its lz4 frame is damaged");
            }
        }
        return n;
    }

    /** Both libraries find damage in exceptions of several kinds, which do not say of what; a report quotes the first cause, so they are none. */
    private static IOException damaged(Exception e) {
        return e instanceof EOFException ? ended() : new IOException("its lz4 frame is damaged: " + e.getMessage());
    }

    /** The lowest of four bytes first. Raises EOFException if there are fewer. */
    private static int number(byte[] bytes) throws EOFException {
        if (bytes.length < 4) {
            throw ended();
        }
        return ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).getInt();
    }

    private static EOFException ended() {
        return new EOFException("it ends in the middle of an lz4 frame");
    }
}
