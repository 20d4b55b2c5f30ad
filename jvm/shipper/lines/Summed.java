package shipper.lines;

import java.io.IOException;
import java.io.InputStream;

/** A file's content, summed up from a byte on as it is read. */
final class Summed extends InputStream {
    private final InputStream in;
    private final long from;
    private final Sum sum = new Sum();
    private long position;

    Summed(InputStream in, long from) {
        this.in = in;
        this.from = from;
    }

    /** Bytes that have been read. */
    long position() {
        return position;
    }

    Sum sum() {
        return sum;
    }

    @Override
    public int read() throws IOException {
        return Content.one(this);
    }

    @Override
    public int read(byte[] bytes, int offset, int length) throws IOException {
        int count = in.read(bytes, offset, length);
        if (count > 0) {
            int before = (int) Math.min(Math.max(from - position, 0), count);
            sum.add(bytes, offset + before, count - before);
            position += count;
        }
        return count;
    }

    @Override
    public void close() throws IOException {
        in.close();
    }
}
