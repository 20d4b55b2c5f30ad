package shipper.lines;

import java.io.IOException;
import java.io.Serializable;
import java.util.List;

/**
 * What became of a piece.
 *
 * @param stored bytes of the file, as it is stored, that this piece accounts for; -1 for bzip2, whose pieces overlap
 * @param unpacked bytes of records, with one for the end of each
 * @param problem why not all of it could be read; null if it could
 * @param passing whether another run may read it
 * @param longBytes of `unpacked`, those of records that are too long
 * @param padding zeros behind what is packed
 */
record Report(long split, long stored, long unpacked, long lines, String problem, boolean passing, long longBytes, long padding)
        implements Serializable {
    /** A count, and for each piece four numbers (split, stored, unpacked, lines), a text, the problem, empty if there is none, 1 if it is passing, the bytes of too long records, and the zeros. */
    static String packed(List<Report> reports) throws IOException {
        Packed.Writer out = new Packed.Writer().number(reports.size());
        for (Report report : reports) {
            out.number(report.split).number(report.stored).number(report.unpacked).number(report.lines);
            out.text(report.problem == null ? "" : report.problem).number(report.passing ? 1 : 0).number(report.longBytes).number(report.padding);
        }
        return out.packed();
    }
}
