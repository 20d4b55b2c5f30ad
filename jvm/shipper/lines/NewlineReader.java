package shipper.lines;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import org.apache.hadoop.io.Text;

/**
 * Lines that '\n' alone ends, of any length. Hadoop's LineReader counts them in an int, and where a reader is told what ends a line, it looks at one byte after the
 * other: a fifth of what the JVM did for a line (docs/adr/0035). A search in a string is an intrinsic of the JVM.
 */
final class NewlineReader {
    private final InputStream in;
    private final byte[] buffer;
    /** The buffer's bytes, a character each. */
    private String searched = "";
    private int next;
    /** Of the lines that were read, but for those {@link #ahead}. */
    private final Sum sum = new Sum();
    private final Sum ahead = new Sum();
    private Sum current = sum;
    /** The buffer's bytes before are summed up. */
    private int summed;

    NewlineReader(InputStream in, int bufferBytes) {
        this.in = in;
        buffer = new byte[bufferBytes];
    }

    /**
     * Reads a line, or what follows up to the end of a buffer in which `most` bytes are reached.
     *
     * @param line becomes its first `room` bytes
     * @return its bytes with its end; 0 at the end of the file
     */
    long readLine(Text line, int room, long most) throws IOException {
        line.clear();
        long read = 0;
        while (read < most) {
            if (next == searched.length()) {
                addToSum();
                int count = in.read(buffer);
                if (count <= 0) {
                    break;
                }
                searched = new String(buffer, 0, count, StandardCharsets.ISO_8859_1);
                next = summed = 0;
            }
            int newline = searched.indexOf('\n', next);
            int stop = newline < 0 ? searched.length() : newline;
            int kept = Math.min(stop - next, room - line.getLength());
            if (kept > 0) {
                line.append(buffer, next, kept);
            }
            int after = newline < 0 ? stop : newline + 1;
            read += after - next;
            next = after;
            if (newline >= 0) {
                break;
            }
        }
        return read;
    }

    private void addToSum() {
        current.add(buffer, summed, next - summed);
        summed = next;
    }

    /** Of the lines that were read since the beginning or since {@link #restart}, and are not ahead. */
    Sum sum() {
        addToSum();
        return sum;
    }

    /** Forgets the lines that were read. */
    void restart() {
        addToSum();
        sum.clear();
        ahead.clear();
        current = sum;
    }

    /** What is read from now on does not belong to the sum, unless it is taken. */
    void lookAhead() {
        addToSum();
        ahead.clear();
        current = ahead;
    }

    /** The lines ahead belong to the sum. */
    void take() {
        if (current == ahead) {
            addToSum();
            sum.append(ahead);
            ahead.clear();
        }
    }
}
