package shipper.lines;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.fs.viewfs.ViewFileSystem;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.HdfsLocatedFileStatus;
import org.apache.hadoop.util.functional.RemoteIterators;

/**
 * Which files somebody has open for writing, as HDFS knows it. Their age says nothing: the time of modification is set when a file is made and
 * when it is closed, not when bytes are written. HDFS tells it in listings with the blocks' locations, so it costs no call for each file.
 */
final class Hdfs {
    private Hdfs() {}

    static boolean isOpen(FileStatus status) {
        return status instanceof HdfsLocatedFileStatus file
                && file.getLocatedBlocks() != null
                && file.getLocatedBlocks().isUnderConstruction();
    }

    /** What a folder holds; of HDFS, also by way of viewfs, in the form that {@link #isOpen} understands. */
    static RemoteIterator<? extends FileStatus> entries(FileSystem fs, Path folder, Configuration conf) throws IOException {
        if (fs instanceof DistributedFileSystem) {
            return fs.listLocatedStatus(folder);
        }
        Path there = fs instanceof ViewFileSystem ? fs.resolvePath(folder) : folder;
        if (there.equals(folder) || !(there.getFileSystem(conf) instanceof DistributedFileSystem hdfs)) {
            return fs.listStatusIterator(folder);
        }
        return RemoteIterators.mappingRemoteIterator(hdfs.listLocatedStatus(there), entry -> {
            entry.setPath(new Path(folder, new Path(null, null, entry.getPath().getName())));
            return entry;
        });
    }

    /** Of a file, in that form; of a folder, a plain one. */
    static FileStatus status(FileSystem fs, Path path, Configuration conf) throws IOException {
        FileStatus plain = fs.getFileStatus(path);
        boolean more = plain.isFile() && (fs instanceof DistributedFileSystem || fs instanceof ViewFileSystem);
        return more ? file(fs, path, conf) : plain;
    }

    /** Of what is a file, in that form, with one call. */
    static FileStatus file(FileSystem fs, Path path, Configuration conf) throws IOException {
        Path there = fs instanceof ViewFileSystem ? fs.resolvePath(path) : path;
        if ((there.equals(path) ? fs : there.getFileSystem(conf)) instanceof DistributedFileSystem hdfs) {
            Path whole = hdfs.makeQualified(there);
            RemoteIterator<? extends FileStatus> itself = hdfs.listLocatedStatus(whole);
            FileStatus found = itself.hasNext() ? itself.next() : null;
            if (found != null && found.getPath().equals(whole)) {
                found.setPath(path);
                return found;
            }
        }
        return fs.getFileStatus(path);
    }
}
