package shipper.lines;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Queue;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.IOUtils;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.CollectionAccumulator;
import org.apache.spark.util.SerializableConfiguration;

/** Goes with the job to the executors. */
record ReaderFactory(
        String[] columns, LineSource.Limits limits, CollectionAccumulator<Report> reports, SerializableConfiguration conf)
        implements PartitionReaderFactory {

    /** A row's mark, and what its split is combined with so that whoever has only that knows it as well (shipper/worker/marks.py). */
    static final byte TOO_LONG = 1, BROKEN = 2, UNREADABLE = 3, END = 4;
    /** A fault of the file system, such as a connection lost, is worth as many tries of the task. */
    static final int TRIES = 3;

    @Override
    public PartitionReader<InternalRow> createReader(InputPartition partition) {
        return new Reader(((LineSource.Pieces) partition).pieces());
    }

    private final class Reader implements PartitionReader<InternalRow> {
        private final Piece[] pieces;
        private final Configuration configuration = conf.value();
        private final GenericInternalRow row = new GenericInternalRow(columns.length);
        private final int value = column("value");
        private final int number = column("record_number");
        private final int swallowed = column("swallowed!");
        private int at = -1;
        private PieceRecords records;
        private long count;
        private boolean marked;
        /** True until the piece has given something since it was opened. */
        private boolean isFirst;
        /** True if the piece is to be opened again, behind the records that have been given. */
        private boolean again;
        /** Of the piece that was read last, -1 where nobody can say: see {@link PieceRecords}. */
        private long stored;
        private long unpacked;
        private String sum;
        private long longBytes;
        /** What is still to be given: of blocks, and of what stands for a file or for a piece's end. */
        private final Queue<Runnable> rows = new ArrayDeque<>();
        private final Block block = column("block!") < 0 ? null : new Block();

        Reader(Piece[] pieces) {
            this.pieces = pieces;
        }

        private int column(String name) {
            return Arrays.asList(columns).indexOf(name);
        }

        private void set(String name, Object content) {
            int i = column(name);
            if (i >= 0) {
                row.update(i, content);
            }
        }

        @Override
        public boolean next() throws IOException {
            while (rows.isEmpty()) {
                if (records == null && !again && at + 1 >= pieces.length) {
                    return false;
                }
                try {
                    if (advance()) {
                        return true;
                    }
                } catch (IOException | RuntimeException error) {
                    giveBlock();
                    if (waited(error)) {
                        continue;
                    }
                    if (mayPass(error)) {
                        throw error;
                    }
                    end(error);
                    rows.add(this::broken);
                }
            }
            rows.remove().run();
            return true;
        }

        /** Reads up to a record that is a row of its own, and returns true; or up to the end of a block or of a piece, and leaves its rows in `rows`. */
        private boolean advance() throws IOException {
            if (again) {
                resume();
            } else if (records == null) {
                Piece piece = pieces[++at];
                stored = unpacked = -1;
                sum = "";
                if (piece.format().equals("unreadable")) {
                    standForFile(piece);
                    endRow();
                    return false;
                }
                count = longBytes = 0;
                begin(piece);
            }
            do {
                long before = records.unpacked();
                boolean more = count < pieces[at].mostLines() && records.next();
                if (isFirst) {
                    Outage.of(new Path(pieces[at].path())).end();
                    isFirst = false;
                }
                if (!more) {
                    giveBlock();
                    sum = limits.ends() ? records.sum().toString() : "";
                    end(null);
                    endRow();
                    return false;
                }
                count++;
                boolean tooLong = records.tooLong();
                longBytes += tooLong ? records.unpacked() - before : 0;
                if (block == null) {
                    record();
                    return true;
                }
                if (tooLong) {
                    giveBlock();
                    block.add(records.bytes(), Math.min(limits.keep(), records.size()));
                    give(~pieces[at].split(), TOO_LONG);
                    return false;
                }
                block.add(records.bytes(), records.size());
            } while (!block.isFull());
            giveBlock();
            return false;
        }

        private void endRow() {
            if (limits.ends()) {
                rows.add(this::ended);
            }
        }

        private void giveBlock() {
            if (block != null && block.count() > 0) {
                give(pieces[at].split(), null);
            }
        }

        private void give(long split, Byte mark) {
            byte[] bytes = block.bytes();
            byte[] recordEnds = block.ends();
            byte[] hashes = block.hashes();
            long recordCount = block.count();
            long sum = block.sum();
            block.clear();
            rows.add(() -> {
                set("split", split);
                set("mark!", mark);
                set("block!", bytes);
                set("ends!", recordEnds);
                set("hashes!", hashes);
                set("records!", recordCount);
                set("sum!", sum);
            });
        }

        private boolean isStopped() {
            TaskContext task = TaskContext.get();
            return task != null && task.isInterrupted() || Thread.currentThread().isInterrupted();
        }

        /** Whether another try of the task may go better, or the task is being stopped. */
        private boolean mayPass(Exception error) {
            TaskContext task = TaskContext.get();
            if (isStopped()) {
                return true;
            }
            return Access.isUnreachable(error) && task != null && task.attemptNumber() + 1 < TRIES;
        }

        /** Waits for a file system that does not answer; true if the piece is to be opened again. */
        private boolean waited(Exception error) {
            if (limits.waitSeconds() == 0 || at < 0) {
                return false;
            }
            Outage outage = Outage.of(new Path(pieces[at].path()));
            boolean silent = Access.isSilent(error) || outage.isOn() && Access.isUnreachable(error); // blocks come back after the NameNode
            if (!silent || !outage.waited(error, limits.waitSeconds(), this::isStopped)) {
                return false;
            }
            close();
            again = true;
            return true;
        }

        /** Opens the piece again, and goes behind the records that have been given. */
        private void resume() throws IOException {
            again = false;
            begin(pieces[at]);
            for (long given = 0; given < count; given++) {
                if (!records.next()) {
                    throw new Access.Changed("it has become shorter while it was read: run the window again, the plan is made anew");
                }
            }
        }

        private void begin(Piece piece) throws IOException {
            if (limits.waitSeconds() > 0) {
                Outage.of(new Path(piece.path())).check();
            }
            isFirst = true;
            records = PieceRecords.open(piece, limits, configuration);
            names(piece);
            plain(piece);
        }

        private void names(Piece piece) {
            set("file_path", UTF8String.fromString(piece.uri()));
            set("file_name", UTF8String.fromString(piece.name()));
            set("split_start", piece.start());
        }

        private void plain(Piece piece) {
            marked = false;
            set("split", piece.split());
            set("mark!", null);
            set("sizes!", null);
        }

        private void record() {
            Piece piece = pieces[at];
            int size = records.size();
            if (records.tooLong()) {
                size = Math.min(limits.keep(), size);
                set("split", ~piece.split());
                set("mark!", TOO_LONG);
                marked = true;
            } else if (marked) {
                plain(piece);
            }
            if (number >= 0) {
                row.update(number, count);
            }
            if (swallowed >= 0) {
                long many = records.swallowed();
                row.update(swallowed, many > 0 ? many : null);
            }
            if (value >= 0) {
                row.update(value, UTF8String.fromBytes(records.bytes(), 0, size));
            }
        }

        /** One row for a file that is known to be unreadable, in its first piece. */
        private void standForFile(Piece piece) {
            boolean first = piece.start() == 0;
            reports.add(new Report(piece.split(), -1, 0, first ? 1 : 0, null, false, 0, 0));
            long split = piece.split() ^ Long.MIN_VALUE;
            if (first && block == null) {
                rows.add(() -> mark(piece, UTF8String.EMPTY_UTF8, split, UNREADABLE));
            } else if (first) {
                block.add(new byte[0], 0);
                give(split, UNREADABLE);
            }
        }

        private void mark(Piece piece, UTF8String content, long split, byte mark) {
            for (int i = 0; i < columns.length; i++) {
                row.setNullAt(i);
            }
            String sizes = stored + " " + unpacked + " " + sum;
            names(piece);
            set("value", content);
            set("record_number", mark == UNREADABLE ? 1L : null);
            set("block!", mark == END ? sizes.getBytes(StandardCharsets.US_ASCII) : null);
            set("records!", 0L);
            set("sum!", 0L);
            set("split", split);
            set("mark!", mark);
            set("sizes!", mark == END ? UTF8String.fromString(sizes) : null);
            marked = true;
        }

        /** The row that says: what was read of this piece is not all of it. */
        private void broken() {
            mark(pieces[at], null, ~pieces[at].split() ^ Long.MIN_VALUE, BROKEN);
        }

        /**
         * The row that says: this is all of the piece, with the bytes that the reader took from the file and made of them, and the sum of its content. That no row follows says nothing: what fails on the way here, this reader or an expression of
         * the pipeline's, ends the stream to Python as if there were no more.
         */
        private void ended() {
            mark(pieces[at], null, pieces[at].split() ^ 1L << 62, END);
        }

        private void end(Exception problem) {
            stored = records == null ? 0 : records.stored();
            unpacked = records == null ? 0 : records.unpacked();
            String why = problem == null ? null : Access.why(problem);
            reports.add(new Report(pieces[at].split(), stored, unpacked, count, why, problem != null && Access.isPassing(problem), longBytes,
                    records == null ? 0 : records.padding()));
            close();
        }

        @Override
        public InternalRow get() {
            return row;
        }

        @Override
        public void close() {
            IOUtils.closeStreams(records);
            records = null;
        }
    }
}
