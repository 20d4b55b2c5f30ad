package shipper.lines;

import java.io.Serializable;

/**
 * What became of a piece.
 *
 * @param stored bytes that were taken from the file, as it is stored; -1 for bzip2, whose pieces overlap
 * @param unpacked bytes of lines, with their ends
 * @param problem why not all of it could be read; null if it could
 * @param passing whether another run may read it
 */
record Report(long split, long stored, long unpacked, long lines, String problem, boolean passing) implements Serializable {}
