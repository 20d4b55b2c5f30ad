package shipper.lines;

import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.zip.CRC32;
import java.util.zip.CRC32C;
import org.apache.hadoop.util.CrcComposer;
import org.apache.hadoop.util.DataChecksum.Type;

/**
 * What some bytes are known by: how many they are, their CRC-32 and their CRC-32C, which processors compute faster than they read. Of two contents one behind
 * the other the sum follows from theirs, so that it does not matter how a file was cut. shipper/ledger/sums.py is the other side.
 */
final class Sum {
    private final CRC32 first = new CRC32();
    private final CRC32C second = new CRC32C();
    private long length;
    /** Of what was appended to. */
    private long firstBefore;
    private long secondBefore;
    private long lengthBefore;

    static Sum of(byte[] bytes) {
        Sum found = new Sum();
        found.add(bytes, 0, bytes.length);
        return found;
    }

    void add(byte[] bytes, int offset, int count) {
        first.update(bytes, offset, count);
        second.update(bytes, offset, count);
        length += count;
    }

    void clear() {
        first.reset();
        second.reset();
        length = firstBefore = secondBefore = lengthBefore = 0;
    }

    /** Takes in what comes behind. */
    void append(Sum other) {
        long one = other.first();
        long two = other.second();
        firstBefore = joined(first(), one, other.length(), Type.CRC32);
        secondBefore = joined(second(), two, other.length(), Type.CRC32C);
        lengthBefore = length() + other.length();
        first.reset();
        second.reset();
        length = 0;
    }

    private long length() {
        return lengthBefore + length;
    }

    private long first() {
        return joined(firstBefore, first.getValue(), length, Type.CRC32);
    }

    private long second() {
        return joined(secondBefore, second.getValue(), length, Type.CRC32C);
    }

    /** LENGTH:CRC32CRC32C, the sums in hexadecimal. */
    @Override
    public String toString() {
        HexFormat digits = HexFormat.of();
        return length() + ":" + digits.toHexDigits(first(), 8) + digits.toHexDigits(second(), 8);
    }

    /** The CRC of two contents, by theirs and the length of the second one. */
    private static long joined(long before, long behind, long length, Type type) {
        if (length == 0) {
            return before; // a composer of no bytes has no CRC
        }
        CrcComposer both = CrcComposer.newCrcComposer(type, length);
        both.update((int) before, length); // the first one may be of any length
        both.update((int) behind, length);
        return Integer.toUnsignedLong(ByteBuffer.wrap(both.digest()).getInt());
    }
}
