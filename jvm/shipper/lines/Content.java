package shipper.lines;

import com.github.luben.zstd.ZstdInputStreamNoFinalizer;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.util.Arrays;
import java.util.concurrent.ExecutionException;
import org.apache.avro.file.SeekableInput;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.EtagSource;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FutureDataInputStreamBuilder;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.compress.BZip2Codec;
import org.xerial.snappy.SnappyFramedInputStream;

/** A file's bytes, as they are stored and as they unpack. Pure Java or libraries with their native part inside: no Hadoop installation. */
final class Content {
    /** Largest window of a zstd frame that is unpacked, as in the zstd tool: 128 MB. */
    private static final int ZSTD_WINDOW_LOG = 27;
    private static final int BUFFER = 64 * 1024;

    private Content() {}

    /** The file system without the checksum files of Hadoop's local one, whose names cannot have a colon. */
    static FileSystem fileSystem(Path path, Configuration conf) throws IOException {
        FileSystem found = path.getFileSystem(conf);
        return found instanceof LocalFileSystem ? ((LocalFileSystem) found).getRawFileSystem() : found;
    }

    /** Changes with the bytes, of an object store; empty where there is none. Without the quotes, which not every server writes everywhere. */
    static String etag(FileStatus status) {
        String found = status instanceof EtagSource source ? source.getEtag() : null;
        return found == null ? "" : found.replace("\"", "");
    }

    /** By its ETag where both have one: a server's listing may say milliseconds where its answer about one object says seconds. */
    static boolean isPlanned(Piece piece, FileStatus status) {
        String etag = etag(status);
        boolean same = piece.etag().isEmpty() || etag.isEmpty()
                ? status.getModificationTime() == piece.modified()
                : etag.equals(piece.etag());
        return same && status.getLen() == piece.size();
    }

    /** Raises {@link Access.Changed} if it is not the file that was planned. Of one that was, the bytes that it had then, whatever is behind them by now. */
    static Stored open(Piece piece, Configuration conf) throws IOException {
        Path path = new Path(piece.path());
        FileSystem fs = fileSystem(path, conf);
        FileStatus status;
        try {
            status = Hdfs.file(fs, path, conf);
        } catch (IOException error) {
            throw Access.orFault(Access.explained(path, conf, error));
        }
        if (Hdfs.isOpen(status)) {
            throw new Access.Changed("somebody opened it for writing after it was planned: a later run takes it, when it is closed");
        }
        if (!isPlanned(piece, status)) {
            throw new Access.Changed("it was replaced or written to after it was planned: run the window again, the plan is made anew");
        }
        return new Stored(fs.openFile(path).withFileStatus(status), status.getLen());
    }

    /** For its beginning alone: an object store is asked for that, and not for all that follows. The status may be null, and is asked for then. */
    static Stored openHead(FileSystem fs, Path path, FileStatus status) throws IOException {
        return new Stored(fs.openFile(path).opt("fs.option.openfile.read.policy", "random").withFileStatus(status), Long.MAX_VALUE);
    }

    private static FSDataInputStream opened(FutureDataInputStreamBuilder wanted) throws IOException {
        try {
            return wanted.build().get();
        } catch (ExecutionException error) {
            throw Access.orFault(error.getCause() instanceof IOException cause ? cause : new IOException(error.getCause()));
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new InterruptedIOException();
        } catch (IOException error) {
            throw Access.orFault(error);
        }
    }

    /** Unpacked from its beginning to its end: members, frames or streams one behind the other are one content. */
    static InputStream unpacked(Stored stored, String format, Configuration conf) throws IOException {
        switch (format) {
            case "plain":
                return stored;
            case "gzip":
                return new GzipMembers(stored, BUFFER);
            case "bzip2":
                return bzip2(conf).createInputStream(stored);
            case "zstd":
                ZstdFrames frames = new ZstdFrames(stored);
                return frames.checked(new ZstdInputStreamNoFinalizer(frames).setLongMax(ZSTD_WINDOW_LOG));
            case "lz4":
                return new Lz4Frames(stored);
            case "snappy":
                return new SnappyFramedInputStream(stored);
            case "hadoop_snappy":
                return new HadoopSnappy(stored);
            default:
                throw new IOException("no reader for format " + format);
        }
    }

    /** The next byte, by a read of several; -1 at the end. */
    static int one(InputStream in) throws IOException {
        byte[] found = new byte[1];
        return in.read(found, 0, 1) < 0 ? -1 : found[0] & 0xff;
    }

    static BZip2Codec bzip2(Configuration conf) {
        BZip2Codec codec = new BZip2Codec();
        codec.setConf(conf);
        return codec;
    }

    /** A copy that says what this reader relies on. */
    static Configuration configured(Configuration conf) {
        Configuration found = new Configuration(conf);
        found.set("io.compression.codec.bzip2.library", "java-builtin");
        return found;
    }

    /** A file's first bytes as they are stored, counted; what is behind them is not seen. All faults of the file system are raised as such. */
    static final class Stored extends FSInputStream implements SeekableInput {
        private final FSDataInputStream stream;
        private final long size;
        private long count;
        private long padding;

        private Stored(FutureDataInputStreamBuilder wanted, long size) throws IOException {
            this.stream = opened(wanted);
            this.size = size;
        }

        /** For what wants to go to and fro in it. */
        FSDataInputStream seekable() {
            return new FSDataInputStream(this);
        }

        long count() {
            return count;
        }

        /** Zeros behind the end of what is packed in it. */
        long padding() {
            return padding;
        }

        /**
         * Reads what lies behind the end of packed content, to the file's end: zeros, with which some tools fill up a block. Raises IOException for anything else.
         *
         * @param begun the bytes of it in [from, to) have been read already
         */
        void readPadding(byte[] begun, int from, int to, String codec) throws IOException {
            byte[] buffer = Arrays.copyOfRange(begun, from, Math.max(to, from + BUFFER));
            for (int n = to - from; n >= 0; n = read(buffer, 0, buffer.length)) {
                for (int i = 0; i < n; i++) {
                    if (buffer[i] != 0) {
                        throw new IOException(String.format(
                                "there are bytes behind the end of its %s content that are no %s: cut them off, or pack the file again", codec, codec));
                    }
                }
                padding += n;
            }
        }

        @Override
        public int read() throws IOException {
            return one(this);
        }

        @Override
        public int read(byte[] bytes, int offset, int length) throws IOException {
            try {
                long left = size - stream.getPos();
                if (left <= 0) {
                    return length == 0 ? 0 : -1;
                }
                int n = stream.read(bytes, offset, (int) Math.min(length, left));
                count += Math.max(n, 0);
                return n;
            } catch (IOException error) {
                throw Access.orFault(error);
            }
        }

        @Override
        public void seek(long to) throws IOException {
            try {
                stream.seek(to);
            } catch (EOFException error) {
                throw error;
            } catch (IOException error) {
                throw Access.orFault(error);
            }
        }

        @Override
        public long getPos() throws IOException {
            return stream.getPos();
        }

        @Override
        public long tell() throws IOException {
            return getPos();
        }

        @Override
        public long length() {
            return size;
        }

        @Override
        public boolean seekToNewSource(long to) throws IOException {
            return stream.seekToNewSource(to);
        }

        @Override
        public int available() throws IOException {
            return (int) Math.min(Math.max(size - stream.getPos(), 0), stream.available());
        }

        @Override
        public void close() throws IOException {
            stream.close();
        }
    }
}
