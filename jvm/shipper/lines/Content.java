package shipper.lines;

import com.github.luben.zstd.ZstdInputStreamNoFinalizer;
import java.io.Closeable;
import java.io.FileNotFoundException;
import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.AccessDeniedException;
import java.util.concurrent.ExecutionException;
import net.jpountz.lz4.LZ4FrameInputStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.EtagSource;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FutureDataInputStreamBuilder;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.compress.BZip2Codec;
import org.apache.hadoop.io.compress.DecompressorStream;
import org.apache.hadoop.io.compress.zlib.BuiltInGzipDecompressor;
import org.apache.hadoop.security.AccessControlException;

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

    static Stored open(FileSystem fs, FileStatus status) throws IOException {
        return new Stored(opened(fs.openFile(status.getPath()).withFileStatus(status)));
    }

    /** For its beginning alone: an object store is asked for that, and not for all that follows. */
    static FSDataInputStream openHead(FileSystem fs, Path path) throws IOException {
        return opened(fs.openFile(path).opt("fs.option.openfile.read.policy", "random"));
    }

    private static FSDataInputStream opened(FutureDataInputStreamBuilder wanted) throws IOException {
        try {
            return wanted.build().get();
        } catch (ExecutionException error) {
            throw error.getCause() instanceof IOException cause ? cause : new IOException(error.getCause());
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new java.io.InterruptedIOException();
        }
    }

    /** Unpacked from its beginning to its end: members, frames or streams one behind the other are one content. */
    static InputStream unpacked(InputStream stored, String format, Configuration conf) throws IOException {
        switch (format) {
            case "plain":
                return stored;
            case "gzip":
                return new DecompressorStream(stored, new BuiltInGzipDecompressor(), BUFFER);
            case "bzip2":
                return bzip2(conf).createInputStream(stored);
            case "zstd":
                ZstdFrames frames = new ZstdFrames(stored);
                return frames.checked(new ZstdInputStreamNoFinalizer(frames).setLongMax(ZSTD_WINDOW_LOG));
            case "lz4":
                return new LZ4FrameInputStream(stored);
            default:
                throw new IOException("no reader for format " + format);
        }
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

    /** A sentence for people. No text of a library that quotes content is in it: they quote numbers and names only. */
    static String why(Throwable error) {
        if (error instanceof PieceLines.Changed) {
            return error.getMessage();
        }
        if (error instanceof AccessControlException || error instanceof AccessDeniedException
                || (error instanceof FileNotFoundException && String.valueOf(error.getMessage()).contains("(Permission denied)"))) {
            return "no permission to read it: grant it to the user that ships";
        }
        if (error instanceof FileNotFoundException || error instanceof java.nio.file.NoSuchFileException) {
            return "it is gone: somebody moved or deleted it after it was listed";
        }
        Throwable root = error;
        while (root.getCause() != null && root.getCause() != root) {
            root = root.getCause();
        }
        String message = root.getMessage() == null ? "" : ": " + root.getMessage().lines().findFirst().orElse("");
        return root.getClass().getSimpleName() + message;
    }

    /** A file's bytes, counted. Knows whether it was itself that failed, and not what unpacks it. */
    static final class Stored extends FilterInputStream implements Closeable {
        private final FSDataInputStream stream;
        private long count;
        private boolean failed;

        Stored(FSDataInputStream stream) {
            super(stream);
            this.stream = stream;
        }

        FSDataInputStream stream() {
            return stream;
        }

        long count() {
            return count;
        }

        boolean failed() {
            return failed;
        }

        @Override
        public int read() throws IOException {
            byte[] one = new byte[1];
            int n = read(one, 0, 1);
            return n < 0 ? -1 : one[0] & 0xff;
        }

        @Override
        public int read(byte[] bytes, int offset, int length) throws IOException {
            try {
                int n = in.read(bytes, offset, length);
                count += Math.max(n, 0);
                return n;
            } catch (IOException error) {
                failed = true;
                throw error;
            }
        }
    }
}
