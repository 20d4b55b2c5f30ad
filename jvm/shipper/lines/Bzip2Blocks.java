package shipper.lines;

import java.io.EOFException;
import java.io.IOException;

/**
 * Whether all blocks of a bzip2 file are there, without unpacking them: each stream ends with a checksum made of those of its blocks. Who
 * reads a file in pieces looks for the beginnings of blocks, and passes over a block whose beginning is damaged without a word.
 */
final class Bzip2Blocks {
    private static final long BLOCK = 0x314159265359L, END = 0x177245385090L, MARK = (1L << 48) - 1;
    private static final byte[] HEADER = {'B', 'Z', 'h'};
    /** With the block size behind it and the first mark. */
    private static final int HEADER_BYTES = 10;

    private Bzip2Blocks() {}

    /**
     * Reads the file to its end and returns the number of blocks. Raises IOException if a block or the end of a stream is missing, and for what lies behind a
     * stream and is neither another one nor padding.
     */
    static long check(Content.Stored in) throws IOException {
        byte[] buffer = new byte[1 << 20];
        long window = 0;
        long seen = 0;
        long blocks = 0;
        long due = -1; // when the 32 bits behind a mark are in the window, as many bytes seen
        int shift = 0;
        boolean ends = false;
        int combined = 0;
        boolean open = true;
        int behind = -1; // as many bytes seen since a stream ended, up to the first mark of another one
        for (int n = in.read(buffer); n >= 0; n = in.read(buffer)) {
            for (int i = 0; i < n; i++) {
                if (behind >= 0 && !isHeader(behind, buffer[i])) {
                    byte[] begun = behind == 0 ? buffer : HEADER;
                    in.readPadding(begun, behind == 0 ? i : 0, behind == 0 ? n : 1, "bzip2");
                    return blocks;
                }
                behind += behind >= 0 ? 1 : 0;
                window = window << 8 | buffer[i] & 0xffL;
                seen++;
                if (seen == due) {
                    int checksum = (int) (window >>> shift);
                    due = -1;
                    if (!ends) {
                        combined = (combined << 1 | combined >>> 31) ^ checksum;
                        open = true;
                    } else if (checksum != combined) {
                        throw new IOException("a block is damaged or missing before byte " + seen);
                    } else {
                        combined = 0;
                        open = false;
                        behind = 0;
                    }
                }
                if (seen < 6 || due >= 0) {
                    continue;
                }
                for (int s = 0; s < 8; s++) {
                    long bits = window >>> s & MARK;
                    if (bits == BLOCK || bits == END) {
                        ends = bits == END;
                        blocks += ends ? 0 : 1;
                        shift = s;
                        due = seen + 4;
                        behind = -1;
                        break;
                    }
                }
            }
        }
        if (open || due >= 0 || behind > 0) {
            throw new EOFException("it is cut off: its last stream has no end");
        }
        return blocks;
    }

    /** Whether a stream can have this byte in front of its first mark, or as the mark itself. */
    private static boolean isHeader(int at, byte one) {
        return at < HEADER.length ? one == HEADER[at] : at == HEADER.length ? one >= '1' && one <= '9' : at < HEADER_BYTES;
    }
}
