package shipper.lines;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.apache.spark.sql.catalyst.expressions.XXH64;
import org.apache.spark.unsafe.Platform;

/**
 * Records of one piece that cross to Python in one row: their bytes one after the other, where each begins and the last one ends (32 bits each, little-endian, as
 * Arrow has offsets), and the hash of each (64 bits), which is that of Spark's `xxhash64`.
 */
final class Block {
    /** Half of what the smallest heap takes for an object of a size of its own. */
    static final int BYTES = 256 * 1024;
    /** Of Spark's `xxhash64`. */
    private static final long SEED = 42;

    private byte[] bytes = new byte[BYTES + 4096];
    private int[] ends = new int[4096];
    private long[] hashes = new long[4096];
    private int size;
    private int count;

    boolean isFull() {
        return size >= BYTES || count >= BYTES / 4;
    }

    int count() {
        return count;
    }

    void clear() {
        size = count = 0;
    }

    void add(byte[] record, int length) {
        if (size + length > bytes.length) {
            bytes = java.util.Arrays.copyOf(bytes, Math.max(size + length, bytes.length * 3 / 2));
        }
        if (count + 1 >= ends.length) {
            ends = java.util.Arrays.copyOf(ends, ends.length * 2);
            hashes = java.util.Arrays.copyOf(hashes, hashes.length * 2);
        }
        System.arraycopy(record, 0, bytes, size, length);
        hashes[count++] = XXH64.hashUnsafeBytes(bytes, Platform.BYTE_ARRAY_OFFSET + size, length, SEED);
        size += length;
        ends[count] = size;
    }

    byte[] bytes() {
        return java.util.Arrays.copyOf(bytes, size);
    }

    byte[] ends() {
        ByteBuffer out = ByteBuffer.allocate(4 * (count + 1)).order(ByteOrder.LITTLE_ENDIAN);
        out.asIntBuffer().put(ends, 0, count + 1);
        return out.array();
    }

    byte[] hashes() {
        ByteBuffer out = ByteBuffer.allocate(8 * count).order(ByteOrder.LITTLE_ENDIAN);
        out.asLongBuffer().put(hashes, 0, count);
        return out.array();
    }

    /** Of all hashes, modulo 2^64. */
    long sum() {
        long sum = 0;
        for (int i = 0; i < count; i++) {
            sum += hashes[i];
        }
        return sum;
    }
}
