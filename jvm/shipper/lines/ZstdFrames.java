package shipper.lines;

import java.io.EOFException;
import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;

/**
 * Walks over the frames of a packed stream as it is read (RFC 8878, 3.1), without unpacking them, and says at its end whether one is cut off:
 * zstd-jni takes the end of a file for the end of its content as soon as one frame was whole.
 */
final class ZstdFrames extends FilterInputStream {
    private enum Part { MAGIC, SKIPPABLE_SIZE, DESCRIPTOR, BLOCK }

    private static final int[] DICTIONARY_BYTES = {0, 1, 2, 4};
    private static final int[] SIZE_BYTES = {0, 2, 4, 8};

    private Part part = Part.MAGIC;
    private boolean checksum;
    /** Of the header that is being read, little-endian. */
    private long header;
    private int have;
    private long skip;

    ZstdFrames(InputStream in) {
        super(in);
    }

    /** The content, with an EOFException at its end if the last frame is not whole. */
    InputStream checked(InputStream unpacked) {
        return new FilterInputStream(unpacked) {
            @Override
            public int read(byte[] bytes, int offset, int length) throws IOException {
                int n = in.read(bytes, offset, length);
                if (n < 0 && (part != Part.MAGIC || have > 0 || skip > 0)) {
                    throw new EOFException("it is cut off: its last frame is not whole");
                }
                return n;
            }

            @Override
            public int read() throws IOException {
                return Content.one(this);
            }
        };
    }

    @Override
    public int read() throws IOException {
        return Content.one(this);
    }

    @Override
    public int read(byte[] bytes, int offset, int length) throws IOException {
        int n = in.read(bytes, offset, length);
        for (int at = offset; at < offset + n; ) {
            if (skip > 0) {
                int skipped = (int) Math.min(skip, offset + n - at);
                skip -= skipped;
                at += skipped;
                continue;
            }
            header |= (bytes[at++] & 0xffL) << (8 * have++);
            if (have == bytesOf(part)) {
                long found = header;
                header = 0;
                have = 0;
                after(found);
            }
        }
        return n;
    }

    private static int bytesOf(Part part) {
        return part == Part.DESCRIPTOR ? 1 : part == Part.BLOCK ? 3 : 4;
    }

    private void after(long found) {
        switch (part) {
            case MAGIC:
                // Anything else is for the decompressor to refuse.
                part = (found & ~0xfL) == 0x184D2A50L ? Part.SKIPPABLE_SIZE : Part.DESCRIPTOR;
                break;
            case SKIPPABLE_SIZE:
                skip = found;
                part = Part.MAGIC;
                break;
            case DESCRIPTOR:
                boolean single = (found >> 5 & 1) == 1;
                int sizeFlag = (int) (found >> 6);
                checksum = (found >> 2 & 1) == 1;
                skip = (single ? 0 : 1) + DICTIONARY_BYTES[(int) found & 3] + (sizeFlag == 0 && single ? 1 : SIZE_BYTES[sizeFlag]);
                part = Part.BLOCK;
                break;
            default:
                boolean last = (found & 1) == 1;
                skip = (found >> 1 & 3) == 1 ? 1 : found >> 3;
                if (last) {
                    skip += checksum ? 4 : 0;
                    part = Part.MAGIC;
                }
        }
    }
}
