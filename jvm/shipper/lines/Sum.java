package shipper.lines;

import java.util.HexFormat;
import java.util.zip.CRC32;
import java.util.zip.CRC32C;

/**
 * What some bytes are known by: how many they are, their CRC-32 and their CRC-32C, which processors compute faster than they read. Of two contents one behind
 * the other the sum follows from theirs, so that it does not matter how a file was cut. shipper/ledger/sums.py is the other side.
 */
final class Sum {
    private static final long CRC32_POLYNOMIAL = 0xEDB88320L, CRC32C_POLYNOMIAL = 0x82F63B78L;

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
        firstBefore = joined(first(), one, other.length(), CRC32_POLYNOMIAL);
        secondBefore = joined(second(), two, other.length(), CRC32C_POLYNOMIAL);
        lengthBefore = length() + other.length();
        first.reset();
        second.reset();
        length = 0;
    }

    private long length() {
        return lengthBefore + length;
    }

    private long first() {
        return joined(firstBefore, first.getValue(), length, CRC32_POLYNOMIAL);
    }

    private long second() {
        return joined(secondBefore, second.getValue(), length, CRC32C_POLYNOMIAL);
    }

    /** LENGTH:CRC32CRC32C, the sums in hexadecimal. */
    @Override
    public String toString() {
        HexFormat digits = HexFormat.of();
        return length() + ":" + digits.toHexDigits(first(), 8) + digits.toHexDigits(second(), 8);
    }

    /** The CRC of two contents, by theirs and the length of the second one: the first one times x^(8 · length), modulo the polynomial. */
    private static long joined(long before, long behind, long length, long polynomial) {
        long power = 1L << 23; // x^8; bit 31 is x^0
        long found = before;
        for (long left = length; left > 0 && before != 0; left >>= 1) {
            found = (left & 1) != 0 ? product(power, found, polynomial) : found;
            power = product(power, power, polynomial);
        }
        return found ^ behind;
    }

    private static long product(long one, long other, long polynomial) {
        long found = 0;
        long shifted = other;
        for (long bit = 1L << 31; bit > 0; bit >>= 1) {
            found ^= (one & bit) != 0 ? shifted : 0;
            shifted = (shifted & 1) != 0 ? shifted >> 1 ^ polynomial : shifted >> 1;
        }
        return found;
    }
}
