package shipper.lines;

import com.github.luben.zstd.Zstd;
import com.github.luben.zstd.ZstdIOException;
import java.io.EOFException;
import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.Arrays;

/**
 * Walks over the frames of a packed stream as it is read (RFC 8878, 3.1), without unpacking them, and says at its end whether one is cut off:
 * zstd-jni takes the end of a file for the end of its content as soon as one frame was whole.
 */
final class ZstdFrames extends FilterInputStream {
    private enum Part { MAGIC, SKIPPABLE_SIZE, DESCRIPTOR, BLOCK }

    private static final String CUT_OFF = "it is cut off: its last frame is not whole";
    /** First bytes of frames. */
    private static final int FRAME = 0x28, SKIPPABLE = 0x50;
    private static final int[] DICTIONARY_BYTES = {0, 1, 2, 4};
    private static final int[] SIZE_BYTES = {0, 2, 4, 8};

    private Part part = Part.MAGIC;
    private boolean checksum;
    /** Of the header that is being read, little-endian. */
    private long header;
    private int have;
    private long skip;
    private final Content.Stored stored;
    private boolean begun;
    private boolean ended;
    /** What lies behind the last frame, as far as it was read with it; null before. */
    private byte[] behind;

    ZstdFrames(Content.Stored stored) {
        super(stored);
        this.stored = stored;
    }

    /** The content, with an EOFException at its end if the last frame is not whole. */
    InputStream checked(InputStream unpacked) {
        return new FilterInputStream(unpacked) {
            @Override
            public int read(byte[] bytes, int offset, int length) throws IOException {
                int n;
                try {
                    n = in.read(bytes, offset, length);
                } catch (ZstdIOException error) {
                    throw new IOException(why(error));
                }
                if (n < 0 && (part != Part.MAGIC || have > 0 || skip > 0)) {
                    throw new EOFException(CUT_OFF);
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
        if (behind != null) {
            stored.readPadding(behind, 0, behind.length, "zstd");
            behind = new byte[0];
            return -1;
        }
        int n = in.read(bytes, offset, length);
        ended = n < 0;
        for (int at = offset; at < offset + n; ) {
            if (skip > 0) {
                int skipped = (int) Math.min(skip, offset + n - at);
                skip -= skipped;
                at += skipped;
                continue;
            }
            if (begun && part == Part.MAGIC && have == 0 && bytes[at] != FRAME && (bytes[at] & 0xf0) != SKIPPABLE) {
                behind = Arrays.copyOfRange(bytes, at, offset + n);
                return at > offset ? at - offset : read(bytes, offset, length);
            }
            begun = true;
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

    private String why(ZstdIOException error) {
        if (ended) {
            return CUT_OFF;
        }
        if (error.getErrorCode() == Zstd.errDictionaryWrong()) {
            return "it was packed with a dictionary, which shipper does not have: pack it again without one";
        }
        if (error.getErrorCode() == Zstd.errFrameParameterWindowTooLarge()) {
            return "it needs a window of more than 128 MB: pack it again without --long and --ultra";
        }
        return "its zstd content is damaged: " + error.getMessage();
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
