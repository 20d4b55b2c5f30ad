package shipper.lines;

import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.Charset;
import java.nio.charset.CharsetDecoder;
import java.nio.charset.CoderResult;
import shipper.redact.Text;

/** Text in another encoding as UTF-8. Each byte that is none of that encoding becomes a byte that no UTF-8 has, so that whoever reads on finds it. */
final class Utf8 extends InputStream {
    /** Becomes the byte FF. */
    private static final String NEVER = "\uDCFF";

    private final InputStream in;
    private final CharsetDecoder decoder;
    private final ByteBuffer stored = ByteBuffer.allocate(64 * 1024).flip();
    private final CharBuffer chars = CharBuffer.allocate(32 * 1024);
    private ByteBuffer made = ByteBuffer.allocate(0);
    private boolean atEnd;

    Utf8(InputStream in, Charset encoding) {
        this.in = in;
        decoder = encoding.newDecoder();
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
            if (atEnd && !stored.hasRemaining()) {
                return false;
            }
            chars.clear();
            CoderResult result = decoder.decode(stored, chars, atEnd);
            int wrong = result.isError() ? result.length() : 0;
            stored.position(stored.position() + wrong);
            made = ByteBuffer.wrap(Text.bytes(chars.flip() + NEVER.repeat(wrong)));
            if (result.isUnderflow() && !atEnd) {
                stored.compact();
                int read = in.read(stored.array(), stored.position(), stored.remaining());
                atEnd = read < 0;
                stored.position(stored.position() + Math.max(read, 0)).flip();
            }
        }
        return true;
    }

    @Override
    public void close() throws IOException {
        in.close();
    }
}
