package shipper.lines;

import static org.apache.hadoop.fs.statistics.IOStatisticsSupport.stubDurationTrackerFactory;

import java.io.IOException;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Set;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.fs.s3a.S3AFileStatus;
import org.apache.hadoop.fs.s3a.S3AFileSystem;
import org.apache.hadoop.fs.s3a.S3AUtils;
import org.apache.hadoop.fs.s3a.S3ListRequest;
import org.apache.hadoop.fs.s3a.S3ListResult;
import org.apache.hadoop.fs.s3a.impl.ListingOperationCallbacks;
import org.apache.hadoop.fs.store.audit.AuditSpan;
import org.apache.hadoop.util.functional.FutureIO;
import software.amazon.awssdk.core.exception.SdkException;
import software.amazon.awssdk.services.s3.model.CommonPrefix;
import software.amazon.awssdk.services.s3.model.S3Object;

/**
 * The keys of a bucket as the store gives them. S3A's listings give paths, and a path cannot express every key: it has no `//`, `/./` or `/../`, and no
 * slash at its end. The requests are S3A's own, with its retries and counters; a subclass of it may make them.
 */
abstract class S3Keys extends S3AFileSystem {
    private static final Set<String> ARCHIVES = Set.of("GLACIER", "DEEP_ARCHIVE");

    private S3Keys() {}

    /** A key, or a prefix of keys, which ends in a slash and has no object. */
    record Entry(String key, S3Object object, long size) {
        long modified() {
            return object.lastModified().toEpochMilli();
        }

        /** Whether it is the empty object that some writers make for a folder. */
        boolean marksFolder() {
            return object != null && size == 0 && (key.endsWith("/") || key.endsWith("_$folder$"));
        }
    }

    /** An object that is a file. */
    private static final class ObjectStatus extends S3AFileStatus {
        private static final long serialVersionUID = 1L;
        private final String storageClass;

        ObjectStatus(S3AFileSystem fs, Path path, S3Object object, long size) {
            super(size, object.lastModified().toEpochMilli(), path, fs.getDefaultBlockSize(path), fs.getUsername(), object.eTag(), null);
            storageClass = String.valueOf(object.storageClassAsString());
        }
    }

    /** The key of what a path names, without a slash at its end; empty for the bucket itself. */
    static String key(Path path) {
        return path.toUri().getPath().substring(1);
    }

    /**
     * The entries whose keys begin with a prefix.
     *
     * @param deep whether each key is an entry; else all keys that have a slash behind the prefix in common are one
     */
    static RemoteIterator<Entry> entries(FileSystem fs, String prefix, boolean deep) throws IOException {
        return new Pages((S3AFileSystem) fs, prefix, deep ? null : "/");
    }

    /** The entry as a file or a folder; null if no path leads to it. */
    static FileStatus status(FileSystem fs, Entry entry) {
        boolean prefix = entry.object() == null;
        String key = prefix ? entry.key().substring(0, entry.key().length() - 1) : entry.key();
        Path path;
        try {
            path = new Path(fs.getUri() + "/" + key);
        } catch (IllegalArgumentException error) {
            return null;
        }
        if (key.isEmpty() || !key(path).equals(key)) {
            return null;
        }
        return prefix ? folder(path) : new ObjectStatus((S3AFileSystem) fs, path, entry.object(), entry.size());
    }

    static FileStatus folder(Path path) {
        return new FileStatus(0, true, 1, 0, 0, path);
    }

    /** Whether an object must be restored before it can be read. Asks about it only if it is kept in an archive. */
    static boolean isArchived(FileSystem fs, FileStatus file) {
        if (!(file instanceof ObjectStatus object) || !ARCHIVES.contains(object.storageClass)) {
            return false;
        }
        try {
            String restored = ((S3AFileSystem) fs).getS3AInternals().getObjectMetadata(file.getPath()).restore();
            return restored == null || restored.contains("ongoing-request=\"true\"");
        } catch (IOException error) {
            return false; // whoever reads it is told
        }
    }

    private static final class Callbacks extends ListingOperationCallbacksImpl {
        Callbacks(S3AFileSystem fs) {
            fs.super();
        }
    }

    private static final class Pages implements RemoteIterator<Entry> {
        private final S3AFileSystem fs;
        private final String prefix;
        private final ListingOperationCallbacks store;
        private final S3ListRequest request;
        private final Deque<Entry> entries = new ArrayDeque<>();
        private S3ListResult page;

        Pages(S3AFileSystem fs, String prefix, String delimiter) throws IOException {
            this.fs = fs;
            this.prefix = prefix;
            store = new Callbacks(fs);
            try (AuditSpan span = span()) {
                request = store.createListObjectsRequest(prefix, delimiter, span);
            }
        }

        private AuditSpan span() throws IOException {
            return fs.createSpan("op_list_files", prefix, null);
        }

        @Override
        public boolean hasNext() throws IOException {
            while (entries.isEmpty() && (page == null || page.isTruncated())) {
                ask();
            }
            return !entries.isEmpty();
        }

        private void ask() throws IOException {
            try (AuditSpan span = span()) {
                page = FutureIO.awaitFuture(
                        page == null
                                ? store.listObjectsAsync(request, stubDurationTrackerFactory(), span)
                                : store.continueListObjectsAsync(request, page, stubDurationTrackerFactory(), span));
            } catch (SdkException error) {
                throw S3AUtils.translateException("list", fs.getUri() + "/" + prefix, error);
            }
            for (S3Object object : page.getS3Objects()) {
                entries.add(new Entry(object.key(), object, store.getObjectSize(object)));
            }
            for (CommonPrefix common : page.getCommonPrefixes()) {
                entries.add(new Entry(common.prefix(), null, 0));
            }
        }

        @Override
        public Entry next() {
            return entries.remove();
        }
    }
}
