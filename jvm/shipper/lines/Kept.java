package shipper.lines;

import java.util.Arrays;

/** Bytes one behind the other: as many as there is room for, and how many there were. */
final class Kept {
    private final long room;
    private byte[] bytes = new byte[1024];
    private int kept;
    private long size;

    Kept(long room) {
        this.room = Math.min(room, Integer.MAX_VALUE - 8);
    }

    void clear() {
        kept = 0;
        size = 0;
    }

    void add(int one) {
        size++;
        if (kept < room) {
            grow(kept + 1L);
            bytes[kept++] = (byte) one;
        }
    }

    void add(byte[] from, int count) {
        size += count;
        int more = (int) Math.min(count, room - kept);
        grow((long) kept + more);
        System.arraycopy(from, 0, bytes, kept, more);
        kept += more;
    }

    private void grow(long least) {
        if (least > bytes.length) {
            bytes = Arrays.copyOf(bytes, (int) Math.min(Math.max(bytes.length * 2L, least), room));
        }
    }

    byte[] bytes() {
        return bytes;
    }

    int kept() {
        return kept;
    }

    /** Of all that was added. */
    long size() {
        return size;
    }
}
