package shipper.lines;

import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicReference;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.GlobExpander;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.statistics.IOStatistics;
import org.apache.hadoop.fs.statistics.IOStatisticsSupport;
import org.apache.hadoop.util.functional.FunctionRaisingIOE;

/** What lies in folders, and how files begin: each asked with one call from Python, and with many at once from the file system. */
public final class Folder {
    private static final int AT_ONCE = 16;
    /** Plain files below this size are read whole where their beginning is asked for: clients of HDFS and S3 get as much with the first request. */
    private static final int SMALL = 64 * 1024;

    private Folder() {}

    /**
     * The entries under `paths` (packed: a count and texts; folders, files or patterns; one that does not exist holds none): files, each once, and what is no candidate, counted by folder and reason.
     *
     * @param include a regular expression for the names of candidates
     * @param unfinished one for names of files that are being written, of which the first `mostUnfinished` are listed as well, whatever `include` says
     * @param most stops when more candidates than that have been found, so that the answer may have one more
     * @param from files that were modified before, in ms since the epoch, are of another window
     * @param before files that were modified then or later, too
     * @return packed: a count, and for each file its path, its URI, its size and its time of modification in ms, 1 if somebody has it open for writing, its ETag (empty where the file system has none), and the number of the path that it was found under (of several, the first); then a count, and for each path that cannot be listed its number, 1 if the file system does not answer, and why; then a count, and for each folder and reason the number of the path, the reason, how many entries, and a count and paths of some
     */
    public static String list(
            Configuration conf, byte[] paths, boolean recursive, String include, String unfinished, long most, int mostUnfinished, long from, long before)
            throws IOException {
        Entries entries = new Entries(
                conf,
                new Entries.Wanted(recursive, Pattern.compile(include), Pattern.compile(unfinished), most, mostUnfinished, from, before));
        List<String> patterns = texts(Packed.reader(paths));
        inParallel(IntStream.range(0, patterns.size()).boxed().toList(), i -> {
            try {
                for (String one : GlobExpander.expand(patterns.get(i))) {
                    entries.add(one, i);
                }
            } catch (IOException | RuntimeException error) {
                entries.failed(i, error);
            }
            return null;
        });
        return entries.packed();
    }

    private static List<String> texts(DataInputStream in) throws IOException {
        List<String> found = new ArrayList<>();
        for (long left = in.readLong(); left > 0; left--) {
            found.add(Packed.text(in));
        }
        return found;
    }

    /**
     * The beginnings of files, in their order.
     *
     * @param files packed: a count, and for each its path, its format, or `plain` for the bytes as they are stored, or `tail` for the last of these, its
     *     ETag, and its size and its time of modification in ms as they were listed
     * @return packed: for each a number, 1 if it could be read, and its first (last) `count` bytes (or all, if it has fewer) or else why not; the number
     *     is 2 if another run may read it, and 3 if the file system does not answer. Those of a file of tables are its rows, as lines. Then a
     *     text: of a plain file that was read to its end and is the one that was listed, the sum of its content, a space, and 1 if it ends a line, else 0;
     *     of others nothing
     */
    public static String heads(Configuration conf, byte[] files, int count) throws IOException {
        DataInputStream in = Packed.reader(files);
        List<Piece> wanted = new ArrayList<>();
        for (long left = in.readLong(); left > 0; left--) {
            wanted.add(whole(in, wanted.size()));
        }
        Packed.Writer out = new Packed.Writer();
        Configuration configured = Content.configured(conf);
        AtomicReference<IOException> silence = new AtomicReference<>();
        for (Object head : inParallel(wanted, file -> head(configured, file, count, silence))) {
            if (head instanceof Head found) {
                out.number(1).bytes(found.content()).text(found.sum());
            } else {
                Exception error = (Exception) head;
                out.number(Access.isSilent(error) ? 3 : Access.isPassing(error) ? 2 : 0).text(Access.why(error)).text("");
            }
        }
        return out.packed();
    }

    /**
     * What lies at paths, in their order.
     *
     * @param paths packed: a count, and texts
     * @return packed: for each its URI, and a number: 1 and the file's size, its time of modification in ms and its ETag, or 0 if no file is there, or none
     *     that may be seen
     */
    public static String status(Configuration conf, byte[] paths) throws IOException {
        Packed.Writer out = new Packed.Writer();
        List<String> wanted = texts(Packed.reader(paths));
        List<Object> found = inParallel(wanted, path -> {
            Path whole = new Path(path);
            try {
                return Hdfs.status(Content.fileSystem(whole, conf), whole, conf);
            } catch (IOException error) {
                IOException told = Access.explained(whole, conf, error);
                if (Access.isGone(told) || (Access.isDenied(told) && !Access.isLogin(told))) {
                    return told;
                }
                throw told;
            }
        });
        for (int i = 0; i < wanted.size(); i++) {
            out.text(new Path(wanted.get(i)).toUri().toString());
            if (found.get(i) instanceof FileStatus file && file.isFile()) {
                out.number(1).number(file.getLen()).number(file.getModificationTime()).text(Content.etag(file));
            } else {
                out.number(0);
            }
        }
        return out.packed();
    }

    /**
     * Sums of the beginnings of files' content.
     *
     * @param files packed: a count, and for each its path, its format (`plain` for the bytes as they are stored) and its ETag, its size and its time of
     *     modification in ms as they were listed, and a count and the lengths of its beginnings, in rising order
     * @return packed: for each a number as of {@link #heads}, and a text: if it is 1, for each length the sum (empty if the content is shorter), a space, 1 if
     *     a line ends there and 0 if not, each with a semicolon behind it, and the content's length (-1 if it is longer); else why not
     */
    public static String sums(Configuration conf, byte[] files) throws IOException {
        DataInputStream in = Packed.reader(files);
        Map<Piece, long[]> wanted = new LinkedHashMap<>();
        for (long left = in.readLong(); left > 0; left--) {
            Piece file = whole(in, wanted.size());
            long[] lengths = new long[(int) in.readLong()];
            for (int i = 0; i < lengths.length; i++) {
                lengths[i] = in.readLong();
            }
            wanted.put(file, lengths);
        }
        Packed.Writer out = new Packed.Writer();
        Configuration configured = Content.configured(conf);
        for (Object found : inParallel(List.copyOf(wanted.entrySet()), one -> sums(configured, one.getKey(), one.getValue()))) {
            if (found instanceof Exception error) {
                out.number(Access.isSilent(error) ? 3 : Access.isPassing(error) ? 2 : 0).text(Access.why(error));
            } else {
                out.number(1).text((String) found);
            }
        }
        return out.packed();
    }

    private static Piece whole(DataInputStream in, int number) throws IOException {
        String path = Packed.text(in);
        String format = Packed.text(in);
        String etag = Packed.text(in);
        return new Piece(path, "", "", format, etag, in.readLong(), in.readLong(), 0, Long.MAX_VALUE, number, Long.MAX_VALUE, 0);
    }

    private static Object sums(Configuration conf, Piece file, long[] lengths) {
        StringBuilder found = new StringBuilder();
        byte[] buffer = new byte[(int) Math.min(64 * 1024, Math.max(1, lengths[lengths.length - 1]))];
        try (Content.Stored stored = Content.open(file, conf); InputStream content = Content.unpacked(stored, file.format(), conf)) {
            Summed summed = new Summed(content, 0);
            int last = -1;
            for (long length : lengths) {
                int count = 0;
                while (summed.position() < length && count >= 0) {
                    count = summed.read(buffer, 0, (int) Math.min(buffer.length, length - summed.position()));
                    last = count > 0 ? buffer[count - 1] : last;
                }
                found.append(summed.position() < length ? "" : summed.sum()).append(' ').append(last == '\n' ? 1 : 0).append(';');
            }
            long position = summed.position();
            return found.append(summed.read(buffer, 0, 1) > 0 ? -1 : position).toString();
        } catch (IOException error) {
            return explained(conf, new Path(file.path()), error);
        } catch (RuntimeException error) {
            return error;
        }
    }

    /** A file's bytes as they are stored. */
    public static FSDataInputStream open(Configuration conf, String path) throws IOException {
        Path found = new Path(path);
        return Content.fileSystem(found, conf).open(found);
    }

    /**
     * How often this JVM's client of an object store has asked it, in all of its threads.
     *
     * @return packed: a count, and for each kind of request, named as the client does, a text and a number
     */
    public static String requests(Configuration conf, String path) throws IOException {
        IOStatistics found = IOStatisticsSupport.retrieveIOStatistics(Content.fileSystem(new Path(path), conf));
        Map<String, Long> counters = found == null ? new TreeMap<>() : new TreeMap<>(found.counters());
        counters.values().removeIf(count -> count == 0);
        Packed.Writer out = new Packed.Writer().number(counters.size());
        for (Map.Entry<String, Long> counter : counters.entrySet()) {
            out.text(counter.getKey()).number(counter.getValue());
        }
        return out.packed();
    }

    /** @param silence the error of a file system that does not answer, which is then asked no more */
    private static Object head(Configuration conf, Piece file, int count, AtomicReference<IOException> silence) {
        if (silence.get() != null) {
            return silence.get();
        }
        try {
            Path path = new Path(file.path());
            FileSystem fs = Content.fileSystem(path, conf);
            if (TableRecords.reads(file.format())) {
                return new Head(rows(fs.getFileStatus(path), file.format(), conf, count), "");
            }
            if (file.format().equals("tail")) {
                return new Head(tail(fs, fs.getFileStatus(path), count), "");
            }
            boolean small = file.format().equals("plain") && file.size() > 0 && file.size() < SMALL;
            FileStatus status = small ? Hdfs.file(fs, path, conf) : null;
            try (Content.Stored stored = Content.openHead(fs, path, status); InputStream content = Content.unpacked(stored, file.format(), conf)) {
                byte[] read = content.readNBytes(small ? Math.max(count, SMALL) : count);
                boolean whole = small && read.length == file.size() && Content.isPlanned(file, status);
                String sum = whole ? Sum.of(read) + (read[read.length - 1] == '\n' ? " 1" : " 0") : "";
                return new Head(read.length > count ? Arrays.copyOf(read, count) : read, sum);
            }
        } catch (IOException error) {
            silence.set(Access.isSilent(error) ? error : silence.get());
            return explained(conf, new Path(file.path()), error);
        } catch (RuntimeException error) {
            return error;
        }
    }

    private static IOException explained(Configuration conf, Path path, IOException error) {
        try {
            return Access.explained(path, conf, error);
        } catch (IOException other) {
            return error;
        }
    }

    private record Head(byte[] content, String sum) {}

    private static byte[] tail(FileSystem fs, FileStatus file, int count) throws IOException {
        byte[] found = new byte[(int) Math.min(count, file.getLen())];
        try (FSDataInputStream stored = fs.open(file.getPath())) {
            stored.readFully(file.getLen() - found.length, found);
        }
        return found;
    }

    private static byte[] rows(FileStatus file, String format, Configuration conf, int count) throws IOException {
        Piece all = new Piece(
                file.getPath().toString(), "", "", format, "", file.getLen(), file.getModificationTime(), 0, file.getLen(), 0, Long.MAX_VALUE, 0);
        ByteArrayOutputStream found = new ByteArrayOutputStream();
        try (PieceRecords rows = PieceRecords.open(all, new LineSource.Limits(count, count, null, false, 0), conf)) {
            while (found.size() < count && rows.next()) {
                found.write(rows.bytes(), 0, Math.min(rows.size(), count));
                found.write('\n');
            }
        }
        return Arrays.copyOf(found.toByteArray(), Math.min(found.size(), count));
    }

    private static <T> List<Object> inParallel(List<T> all, FunctionRaisingIOE<T, Object> step) throws IOException {
        ExecutorService pool = Executors.newFixedThreadPool(Math.max(1, Math.min(AT_ONCE, all.size())));
        try {
            List<Callable<Object>> calls = all.stream().map(one -> (Callable<Object>) () -> step.apply(one)).toList();
            List<Object> results = new ArrayList<>();
            for (Future<Object> done : pool.invokeAll(calls)) {
                results.add(done.get());
            }
            return results;
        } catch (ExecutionException error) {
            throw error.getCause() instanceof IOException cause ? cause : new IOException(error.getCause());
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new java.io.InterruptedIOException();
        } finally {
            pool.shutdownNow();
        }
    }
}
