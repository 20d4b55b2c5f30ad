package shipper.lines;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;

/**
 * The rows of a piece of a Parquet, ORC or Avro file, each as one JSON object, by the file's own schema. A field that is null is left out; inside
 * of lists and maps a null is a null.
 */
abstract class TableRecords extends PieceRecords {
    /** Whether a format is one of these; shipper/driver/recognition.py names them too. */
    static boolean reads(String format) {
        return format.equals("parquet") || format.equals("orc") || format.equals("avro");
    }

    final Json json = new Json(this);
    private boolean begun;

    TableRecords(Piece piece, int maxLine, Configuration conf) throws IOException {
        super(piece, maxLine, conf);
    }

    /** Reads what the file says of itself. */
    abstract void header() throws IOException;

    /** Writes the next row into `json`; false if there is none. */
    abstract boolean row() throws IOException;

    /** Whether a part of the file that has its place at `position` belongs to this piece. */
    final boolean holds(long position) {
        return position >= piece.start() && position < piece.end();
    }

    /** As it is stored: of rows that are made nobody could sum up the beginning. */
    @Override
    final Sum sum() throws IOException {
        Sum found = new Sum();
        byte[] buffer = new byte[64 * 1024];
        try (Content.Stored again = Content.open(piece, conf)) {
            again.seek(piece.start());
            for (long left = piece.end() - piece.start(); left > 0;) {
                int count = again.read(buffer, 0, (int) Math.min(buffer.length, left));
                if (count <= 0) {
                    throw new Access.Changed("it has become shorter while it was read: run the window again, the plan is made anew");
                }
                found.add(buffer, 0, count);
                left -= count;
            }
        }
        return found;
    }

    @Override
    final boolean next() throws IOException {
        try {
            if (!begun) {
                header();
                begun = true;
            }
            clear();
            if (!row()) {
                return false;
            }
        } catch (OutOfMemoryError error) {
            // What damaged bytes say of a length is asked of the heap at once, and not there; the heap is as it was.
            throw new IOException("a part of it says that it is larger than memory: it is damaged, or `runner.driver_memory` is too small for it");
        } catch (LinkageError | StackOverflowError error) {
            throw new IOException("it needs what this reader does not have (" + error.getClass().getSimpleName() + ")");
        }
        json.flush();
        unpacked += length + 1;
        return true;
    }
}
