package shipper.lines;

import java.io.Serializable;

/**
 * What became of a piece.
 *
 * @param stored bytes of the file, as it is stored, that this piece accounts for; -1 for bzip2, whose pieces overlap
 * @param unpacked bytes of records, with one for the end of each
 * @param problem why not all of it could be read; null if it could
 * @param passing whether another run may read it
 * @param longBytes of `unpacked`, those of records that are too long
 */
record Report(long split, long stored, long unpacked, long lines, String problem, boolean passing, long longBytes) implements Serializable {}
