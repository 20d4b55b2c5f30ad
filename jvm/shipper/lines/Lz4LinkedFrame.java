package shipper.lines;

import java.io.IOException;
import java.io.InputStream;
import net.jpountz.xxhash.StreamingXXHash32;
import net.jpountz.xxhash.XXHash32;
import net.jpountz.xxhash.XXHashFactory;

/**
 * One lz4 frame whose blocks may repeat what lies up to 64 kB in front of them, from behind its flags on (lz4_Frame_format.md, lz4_Block_format.md).
 * What has a checksum is held against it.
 */
final class Lz4LinkedFrame extends InputStream {
    private static final int HISTORY = 64 * 1024;
    private static final int VERSION = 0xC0, VERSION_1 = 0x40, BLOCK_SUMS = 1 << 4, SIZE = 1 << 3, SUM = 1 << 2, RESERVED = 1 << 1, DICTIONARY = 1;
    private static final int STORED_AS_IT_IS = 1 << 31;

    private final InputStream stored;
    private final XXHash32 hash = XXHashFactory.fastestInstance().hash32();
    private final StreamingXXHash32 sum;
    private final boolean blockSums;
    private final long size;
    private final int largest;
    private final byte[] packed;
    /** What was unpacked last, and the block behind it. */
    private final byte[] content;
    private int position;
    private int end;
    private long count;
    private boolean ended;

    Lz4LinkedFrame(InputStream stored, int flags) throws IOException {
        this.stored = stored;
        if ((flags & VERSION) != VERSION_1 || (flags & RESERVED) != 0) {
            throw new IOException("its lz4 frame is of a version that nobody knows");
        }
        if ((flags & DICTIONARY) != 0) {
            throw new IOException("its lz4 frame was packed with a dictionary, which it does not hold: pack it without");
        }
        byte[] rest = exactly((flags & SIZE) != 0 ? 10 : 2); // block size, content size, checksum of all that
        byte[] descriptor = new byte[rest.length];
        descriptor[0] = (byte) flags;
        System.arraycopy(rest, 0, descriptor, 1, rest.length - 1);
        int kind = rest[0] >>> 4 & 7;
        if ((hash.hash(descriptor, 0, descriptor.length, 0) >>> 8 & 0xff) != (rest[rest.length - 1] & 0xff) || kind < 4) {
            throw damaged("the head of its lz4 frame");
        }
        long found = 0;
        for (int i = 8; i > 0 && rest.length > 2; i--) {
            found = found << 8 | rest[i] & 0xff;
        }
        size = rest.length > 2 ? found : -1;
        blockSums = (flags & BLOCK_SUMS) != 0;
        sum = (flags & SUM) != 0 ? XXHashFactory.fastestInstance().newStreamingHash32(0) : null;
        largest = 1 << 8 + 2 * kind;
        packed = new byte[largest];
        content = new byte[HISTORY + largest];
    }

    @Override
    public int read() throws IOException {
        byte[] one = new byte[1];
        int n = read(one, 0, 1);
        return n < 0 ? -1 : one[0] & 0xff;
    }

    @Override
    public int read(byte[] bytes, int offset, int length) throws IOException {
        while (position == end) {
            if (ended || !block()) {
                return -1;
            }
        }
        int n = Math.min(length, end - position);
        System.arraycopy(content, position, bytes, offset, n);
        position += n;
        return n;
    }

    /** Unpacks the next one; false behind the last. */
    private boolean block() throws IOException {
        int head = Lz4Frames.number(exactly(4), 4);
        if (head == 0) {
            finish();
            return false;
        }
        int length = head & ~STORED_AS_IT_IS;
        if (length > largest) {
            throw damaged("a block of its lz4 frame");
        }
        if (stored.readNBytes(packed, 0, length) < length) {
            throw Lz4Frames.ended();
        }
        if (blockSums && Lz4Frames.number(exactly(4), 4) != hash.hash(packed, 0, length, 0)) {
            throw damaged("a block of its lz4 frame");
        }
        int kept = Math.min(end, HISTORY);
        System.arraycopy(content, end - kept, content, 0, kept);
        position = kept;
        if (head < 0) {
            System.arraycopy(packed, 0, content, kept, length);
            end = kept + length;
        } else {
            end = unpack(length, kept);
        }
        count += end - position;
        if (sum != null) {
            sum.update(content, position, end - position);
        }
        return true;
    }

    private void finish() throws IOException {
        ended = true;
        if (sum != null && Lz4Frames.number(exactly(4), 4) != sum.getValue()) {
            throw damaged("the content of its lz4 frame");
        }
        if (size >= 0 && size != count) {
            throw damaged("the size of its lz4 frame");
        }
    }

    /** Sequences of literals and of a copy of what was there, from {@code at} on; returns where they end. A block ends with literals. */
    private int unpack(int length, int at) throws IOException {
        int from = 0, to = at, limit = at + largest;
        while (from < length) {
            int token = packed[from++];
            int literals = token >>> 4 & 15;
            if (literals == 15) {
                int more;
                do {
                    more = byteAt(from++, length);
                    literals += more;
                } while (more == 255 && literals < limit);
            }
            if (literals > length - from || literals > limit - to) {
                throw damaged("a block of its lz4 frame");
            }
            System.arraycopy(packed, from, content, to, literals);
            from += literals;
            to += literals;
            if (from == length) {
                return to;
            }
            int back = byteAt(from, length) | byteAt(from + 1, length) << 8;
            from += 2;
            int copied = (token & 15) + 4;
            if (copied == 19) {
                int more;
                do {
                    more = byteAt(from++, length);
                    copied += more;
                } while (more == 255 && copied < limit);
            }
            if (back == 0 || back > to || copied > limit - to) {
                throw damaged("a block of its lz4 frame");
            }
            copy(to - back, to, copied);
            to += copied;
        }
        throw damaged("a block of its lz4 frame");
    }

    /** Of what overlaps the next byte is one that was just written. */
    private void copy(int from, int to, int count) {
        if (to - from >= count) {
            System.arraycopy(content, from, content, to, count);
            return;
        }
        for (int i = 0; i < count; i++) {
            content[to + i] = content[from + i];
        }
    }

    private int byteAt(int index, int length) throws IOException {
        if (index >= length) {
            throw damaged("a block of its lz4 frame");
        }
        return packed[index] & 0xff;
    }

    private byte[] exactly(int count) throws IOException {
        byte[] found = stored.readNBytes(count);
        if (found.length < count) {
            throw Lz4Frames.ended();
        }
        return found;
    }

    private static IOException damaged(String what) {
        return new IOException(what + " is damaged");
    }
}
