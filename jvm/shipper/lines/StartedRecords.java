package shipper.lines;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.util.LineReader;

/**
 * Records of several lines, such as stack traces: one begins at each line that begins with what a pattern matches, and at the first line of a
 * file. A record belongs to the piece in which its first line begins (as {@link PieceLines} has it), and is read beyond the piece's end. What is
 * packed is read from its beginning, as one piece.
 */
final class StartedRecords extends KeptRecords {
    private static final byte[] LINE_END = {'\n'};
    private static final int BUFFER = 64 * 1024;

    private final Pattern startsWith;
    private final Content.Stored stored;
    private final Text line = new Text();
    private final LineReader lines;
    private long position;
    private long end;
    private long lineStart;
    private int lineRead;
    /** Whether a record of this piece begins with `line`. */
    private boolean begins;
    private int count;

    StartedRecords(Piece piece, int maxLine, Pattern startsWith, Configuration conf) throws IOException {
        super(piece, maxLine);
        this.startsWith = startsWith;
        stored = Content.open(piece, conf);
        try {
            lines = begin(conf);
        } catch (Throwable error) {
            stored.close();
            throw error;
        }
    }

    private LineReader begin(Configuration conf) throws IOException {
        if (!piece.format().equals("plain")) {
            InputStream in = Content.fromStart(stored, piece, conf);
            if (in == null) {
                return null;
            }
            end = Long.MAX_VALUE;
            LineReader found = new LineReader(in, BUFFER, LINE_END);
            first(found);
            return found;
        }
        position = piece.start();
        end = piece.end();
        stored.seek(position);
        LineReader found = new LineReader(stored, BUFFER, LINE_END);
        if (position == 0) {
            first(found);
            return found;
        }
        position += found.readLine(line, 0, (int) Math.min(end - position + 1, Integer.MAX_VALUE));
        while (!begins && position <= end && read(found)) {
            begins = matches();
        }
        return found;
    }

    /** A file's first line begins a record, whatever it is. A byte order mark is not part of it. */
    private void first(LineReader in) throws IOException {
        begins = read(in);
        byte[] found = line.getBytes();
        if (line.getLength() >= 3 && found[0] == (byte) 0xEF && found[1] == (byte) 0xBB && found[2] == (byte) 0xBF) {
            line.set(line.copyBytes(), 3, line.getLength() - 3);
            lineRead -= 3;
            unpacked = 3;
            begins = lineRead > 0;
        }
    }

    private boolean read(LineReader in) throws IOException {
        lineStart = position;
        lineRead = in.readLine(line, maxLine == Integer.MAX_VALUE ? maxLine : maxLine + 4, Integer.MAX_VALUE);
        position += lineRead;
        return lineRead > 0;
    }

    private boolean matches() throws IOException {
        try {
            return startsWith.matcher(new String(line.getBytes(), 0, line.getLength(), StandardCharsets.UTF_8)).lookingAt();
        } catch (StackOverflowError error) {
            throw new IOException("`records.starts_with` takes more memory on one of its lines than a thread has: repeat no group in it, such as (a|b)*");
        }
    }

    @Override
    public boolean next() throws IOException {
        if (!begins) {
            return false;
        }
        kept.clear();
        count = 0;
        begins = false;
        add();
        while (read(lines)) {
            if (matches()) {
                begins = lineStart <= end;
                break;
            }
            add();
        }
        return true;
    }

    /** The line, behind the lines before it. */
    private void add() {
        unpacked += lineRead;
        if (count++ > 0) {
            kept.add('\n');
        }
        kept.add(line.getBytes(), line.getLength());
    }

    @Override
    public long stored() {
        return Content.takenOf(stored, piece);
    }

    @Override
    public void close() throws IOException {
        try {
            if (lines != null) {
                lines.close();
            }
        } finally {
            stored.close();
        }
    }
}
