package shipper.lines;

import java.io.DataInputStream;
import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;

/**
 * Bytes [start, end) of a file, as the plan cut it. Its lines are those that begin in there; of a packed file that cannot be cut, all; of a file of
 * tables, those of the parts that lie in there (docs/adr/0020).
 *
 * @param from bytes of the content that are passed over: they were shipped when the file had no others, and its first piece begins behind them
 */
record Piece(
        String path, String uri, String name, String format, String etag, long size, long modified, long start, long end, long split, long mostLines, long from)
        implements Serializable {

    /** What spark_jobs/reader.py packed: a count, and for each piece five texts and seven numbers. */
    static List<Piece> unpack(byte[] packed) throws IOException {
        DataInputStream in = Packed.reader(packed);
        long count = in.readLong();
        List<Piece> pieces = new ArrayList<>();
        for (long i = 0; i < count; i++) {
            pieces.add(new Piece(
                    Packed.text(in), Packed.text(in), Packed.text(in), Packed.text(in), Packed.text(in),
                    in.readLong(), in.readLong(), in.readLong(), in.readLong(), in.readLong(), in.readLong(), in.readLong()));
        }
        return pieces;
    }
}
