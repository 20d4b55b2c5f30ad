package shipper.lines;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;

/**
 * Records of several lines, such as stack traces: one begins at each line that begins with what a pattern matches, and at the first line of a
 * file. A record belongs to the piece in which its first line begins (as {@link PieceLines} has it), and is read beyond the piece's end. What is
 * packed is read from its beginning, as one piece.
 */
final class StartedRecords extends PieceRecords {
    private static final byte[] LINE_END = {'\n'};

    private final Pattern startsWith;
    private final PieceLines lines;
    /** Whether a record of this piece begins with the line that was read last. */
    private boolean begins;
    /** Bytes of the lines in front of that one. */
    private long before;

    StartedRecords(Piece piece, int maxLine, Framing framing, Configuration conf) {
        super(piece, maxLine, conf);
        startsWith = framing.startsWith();
        lines = opened(new PieceLines(piece, maxLine, framing, false, conf));
    }

    /** A file's first line begins a record, whatever it is. */
    @Override
    void begin() throws IOException {
        lines.begin();
        do {
            if (piece.start() > piece.from()) {
                lines.forget();
            }
            before = lines.unpacked();
            begins = lines.next();
        } while (begins && piece.start() > piece.from() && !matches());
        unpacked = begins || piece.start() > piece.from() ? 0 : lines.unpacked(); // a byte order mark and nothing else
    }

    private boolean matches() throws IOException {
        try {
            return startsWith.matcher(new String(lines.bytes(), 0, lines.size(), StandardCharsets.UTF_8)).lookingAt();
        } catch (StackOverflowError error) {
            throw new IOException("`records.starts_with` takes more memory on one of its lines than a thread has: repeat no group in it, such as (a|b)*");
        }
    }

    @Override
    boolean next() throws IOException {
        if (!begins) {
            return false;
        }
        clear();
        boolean more = add();
        while (more && !matches()) {
            keep(LINE_END, 0, 1);
            more = add();
        }
        begins &= more;
        return true;
    }

    /** Appends the line to the record, and reads the next one; false if there is none. */
    private boolean add() throws IOException {
        lines.take();
        keep(lines.bytes(), 0, lines.size());
        unpacked += lines.unpacked() - before;
        before = lines.unpacked();
        begins = lines.mayHaveMore();
        if (!begins) {
            lines.lookAhead();
        }
        return lines.read() > 0;
    }

    @Override
    long stored() {
        return lines.stored();
    }

    @Override
    Sum sum() throws IOException {
        return lines.sum();
    }

    @Override
    long padding() {
        return lines.padding();
    }
}
