package shipper.lines;

import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.Charset;
import java.nio.charset.CharsetDecoder;
import java.nio.charset.CoderResult;
import java.nio.charset.StandardCharsets;

/** Text in another encoding as UTF-8. Each byte that is none of that encoding becomes a byte that no UTF-8 has, so that whoever reads on finds it. */
final class Utf8 extends InputStream {
    private static final byte NEVER = (byte) 0xFF;
    private static final int[] LEAST = {0, 0x80, 0x800, 0x10000};

    private final InputStream in;
    private final CharsetDecoder decoder;
    private final ByteBuffer stored = ByteBuffer.allocate(64 * 1024).flip();
    private final CharBuffer chars = CharBuffer.allocate(32 * 1024);
    private ByteBuffer made = ByteBuffer.allocate(0);
    private boolean atEnd;
    private int wrong;

    Utf8(InputStream in, Charset encoding) {
        this.in = in;
        decoder = encoding.newDecoder();
    }

    /** Return the place of the first byte of [start, end) that is no part of UTF-8; `end` if there is none. */
    static int firstInvalid(byte[] bytes, int start, int end) {
        int i = start;
        while (i < end) {
            int one = bytes[i];
            int more = one >= 0 ? 0 : (one & 0xE0) == 0xC0 ? 1 : (one & 0xF0) == 0xE0 ? 2 : (one & 0xF8) == 0xF0 ? 3 : end;
            if (more >= end - i) {
                return i;
            }
            int code = more == 0 ? one : one & 0x3F >> more;
            for (int k = 1; k <= more; k++) {
                if ((bytes[i + k] & 0xC0) != 0x80) {
                    return i;
                }
                code = code << 6 | bytes[i + k] & 0x3F;
            }
            if (code < LEAST[more] || code > Character.MAX_CODE_POINT || more == 2 && Character.isSurrogate((char) code)) {
                return i;
            }
            i += more + 1;
        }
        return end;
    }

    @Override
    public int read() throws IOException {
        return ready() ? made.get() & 0xff : -1;
    }

    @Override
    public int read(byte[] bytes, int offset, int length) throws IOException {
        if (length == 0 || !ready()) {
            return length == 0 ? 0 : -1;
        }
        int count = Math.min(length, made.remaining());
        made.get(bytes, offset, count);
        return count;
    }

    /** Makes the next bytes, if there are more. */
    private boolean ready() throws IOException {
        while (!made.hasRemaining()) {
            if (wrong > 0) {
                wrong--;
                made = ByteBuffer.wrap(new byte[] {NEVER});
                return true;
            }
            if (atEnd && !stored.hasRemaining()) {
                return false;
            }
            decode();
        }
        return true;
    }

    private void decode() throws IOException {
        chars.clear();
        CoderResult result = decoder.decode(stored, chars, atEnd);
        if (result.isError()) {
            wrong = result.length();
            stored.position(stored.position() + wrong);
        } else if (result.isUnderflow() && !atEnd) {
            stored.compact();
            int read = in.read(stored.array(), stored.position(), stored.remaining());
            atEnd = read < 0;
            stored.position(stored.position() + Math.max(read, 0)).flip();
        }
        made = StandardCharsets.UTF_8.encode(chars.flip());
    }

    @Override
    public void close() throws IOException {
        in.close();
    }
}
