package shipper.lines;

/** Records that are kept as far as the longest one allowed. */
abstract class KeptRecords implements PieceRecords {
    final Piece piece;
    final int maxLine;
    /** The record; one byte more than the longest one says that it is too long. */
    final Kept kept;
    long unpacked;

    KeptRecords(Piece piece, int maxLine) {
        this.piece = piece;
        this.maxLine = maxLine;
        kept = new Kept(maxLine + 1L);
    }

    @Override
    public final byte[] bytes() {
        return kept.bytes();
    }

    @Override
    public final int size() {
        return kept.kept();
    }

    @Override
    public boolean tooLong() {
        return kept.size() > maxLine;
    }

    @Override
    public final long unpacked() {
        return unpacked;
    }
}
