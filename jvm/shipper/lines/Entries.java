package shipper.lines;

import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.AccessDeniedException;
import java.nio.file.DirectoryStream;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.GlobPattern;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.util.functional.ConsumerRaisingIOE;
import org.apache.hadoop.util.functional.RemoteIterators;

/**
 * The entries of the folders that a plan lists. Each becomes a file of the plan, or is counted with the reason why not (the codes of
 * shipper/driver/files.py), so that the two together are what the file system has.
 */
final class Entries {
    /** Paths that are told of each folder and reason. */
    private static final int SAMPLES = 5;
    /** Folders and reasons that are told apart. What is beyond is counted by listed path and reason. */
    private static final int MOST_FOLDERS = 1_000;

    private final Configuration conf;
    private final Wanted wanted;
    private final Map<String, FileStatus> found = new LinkedHashMap<>();
    private final Map<String, Integer> under = new HashMap<>();
    private final Map<Integer, Exception> problems = new TreeMap<>();
    private final Map<Where, Left> left = new LinkedHashMap<>();
    private long candidates;
    private long written;

    /** What is listed: see {@link Folder#list}. */
    record Wanted(boolean recursive, Pattern include, Pattern unfinished, long most, int mostUnfinished, long from, long before) {}

    private record Where(int number, String folder, String code) {}

    private static final class Left {
        final TreeSet<String> paths = new TreeSet<>();
        long count;
    }

    Entries(Configuration conf, Wanted wanted) {
        this.conf = conf;
        this.wanted = wanted;
    }

    /** Adds what a pattern without braces that hold a slash matches. */
    void add(String pattern, int number) throws IOException {
        FileSystem fs = Content.fileSystem(new Path(pattern), conf);
        Path path = fs.makeQualified(new Path(pattern));
        boolean met = new GlobPattern(path.getName()).hasWildcard();
        boolean wild = anyWildcard(path);
        String otherwise = pattern.endsWith("/") ? "not-a-folder" : null;
        for (FileStatus status : matches(fs, path, number)) {
            if (!status.isDirectory()) {
                note(fs, status, number, otherwise);
                continue;
            }
            if (hasKeys(fs) && !met) {
                object(fs, status.getPath(), number, otherwise);
            }
            try {
                folder(fs, status.getPath(), status.getPath(), number);
            } catch (IOException error) {
                if (!wild) {
                    throw error;
                }
                unlessDenied(error, status.getPath(), number);
            }
        }
    }

    /** An object store may have an object of a folder's name. */
    private void object(FileSystem fs, Path path, int number, String otherwise) throws IOException {
        String key = S3Keys.key(path);
        RemoteIterator<S3Keys.Entry> entries = S3Keys.entries(fs, key, false);
        S3Keys.Entry first = key.isEmpty() || !entries.hasNext() ? null : entries.next();
        if (first != null && first.key().equals(key)) {
            note(fs, S3Keys.status(fs, first), number, otherwise);
        }
    }

    synchronized void failed(int number, Exception error) {
        problems.put(number, error);
    }

    synchronized String packed() throws IOException {
        Packed.Writer out = new Packed.Writer().number(found.size());
        for (FileStatus file : found.values()) {
            out.text(file.getPath().toString()).text(file.getPath().toUri().toString());
            out.number(file.getLen()).number(file.getModificationTime()).number(Hdfs.isOpen(file) ? 1 : 0).text(Content.etag(file));
            out.number(under.get(file.getPath().toString()));
        }
        out.number(problems.size());
        for (Map.Entry<Integer, Exception> problem : problems.entrySet()) {
            out.number(problem.getKey()).number(Access.isSilent(problem.getValue()) ? 1 : 0).text(Access.whyNotListed(problem.getValue()));
        }
        out.number(left.size());
        for (Map.Entry<Where, Left> one : left.entrySet()) {
            out.number(one.getKey().number()).text(one.getKey().code()).number(one.getValue().count);
            out.number(one.getValue().paths.size());
            for (String path : one.getValue().paths) {
                out.text(path);
            }
        }
        return out.packed();
    }

    private synchronized boolean full() {
        return candidates > wanted.most();
    }

    private synchronized void leave(int number, String folder, String path, String code) {
        Where where = new Where(number, folder, code);
        if (left.size() >= MOST_FOLDERS && !left.containsKey(where)) {
            where = new Where(number, "", code);
        }
        Left all = left.computeIfAbsent(where, key -> new Left());
        all.count++;
        all.paths.add(path);
        if (all.paths.size() > SAMPLES) {
            all.paths.pollLast();
        }
    }

    private void leave(int number, Path path, String code) {
        leave(number, String.valueOf(path.getParent()), path.toString(), code);
    }

    private void note(FileSystem fs, FileStatus file, int number) {
        note(fs, file, number, null);
    }

    /** @param otherwise the reason why a file that is wanted is left out; null for none */
    private void note(FileSystem fs, FileStatus file, int number, String otherwise) {
        String code = code(file.getPath().getName(), file.getModificationTime(), otherwise);
        if (code == null && file.getLen() < 0) {
            code = "negative-size";
        } else if (code == null && hasKeys(fs) && S3Keys.isArchived(fs, file)) {
            code = "archived";
        }
        take(file, number, code);
    }

    private String code(String name, long modified, String otherwise) {
        if (modified < wanted.from() || modified >= wanted.before()) {
            return "other-window";
        }
        boolean fits = wanted.include().matcher(name).matches() || wanted.unfinished().matcher(name).matches();
        return fits ? otherwise : "unwanted";
    }

    private synchronized void take(FileStatus file, int number, String code) {
        String path = file.getPath().toString();
        boolean candidate = wanted.include().matcher(file.getPath().getName()).matches();
        if (under.computeIfPresent(path, (key, first) -> Math.min(first, number)) != null || full()) {
            return;
        }
        if (code != null) {
            leave(number, file.getPath(), code);
        } else if (!candidate && ++written > wanted.mostUnfinished()) {
            leave(number, file.getPath(), "unfinished");
        } else {
            candidates += candidate ? 1 : 0;
            found.put(path, file);
            under.put(path, number);
        }
    }

    private void folder(FileSystem fs, Path folder, Path top, int number) throws IOException {
        if (wanted.recursive() && hasKeys(fs)) {
            keys(fs, folder, number);
            return;
        }
        List<Path> deeper = new ArrayList<>();
        scan(fs, folder, top, null, number, entry -> {
            if (!entry.isDirectory()) {
                note(fs, entry, number);
            } else if (wanted.recursive()) {
                deeper.add(entry.getPath());
            } else {
                leave(number, entry.getPath(), "folder");
            }
        });
        for (Path one : full() ? List.<Path>of() : deeper) {
            try {
                folder(fs, one, top, number);
            } catch (IOException error) {
                unlessDenied(error, one, number);
            }
        }
    }

    /** An object store knows no folders: it lists all that is below a prefix with a request for each thousand keys, not for each folder. */
    private void keys(FileSystem fs, Path top, int number) throws IOException {
        RemoteIterator<? extends FileStatus> entries = keysBelow(fs, top, true, null, number);
        while (!full() && entries.hasNext()) {
            FileStatus entry = entries.next();
            Path hiding = null;
            for (Path above = entry.getPath().getParent(); !above.equals(top); above = above.getParent()) {
                hiding = hidden(above.getName()) ? above : hiding;
            }
            hiding = hiding == null && hidden(entry.getPath().getName()) ? entry.getPath() : hiding;
            if (hiding != null) {
                leave(number, String.valueOf(hiding.getParent()), entry.getPath().toString(), "hidden");
            } else {
                note(fs, entry, number);
            }
        }
    }

    /** What lies below a folder of an object store, without the empty objects that stand for folders. A key to which no path leads is left out. */
    private RemoteIterator<FileStatus> keysBelow(FileSystem fs, Path folder, boolean deep, GlobPattern name, int number) throws IOException {
        String prefix = S3Keys.key(folder).isEmpty() ? "" : S3Keys.key(folder) + "/";
        RemoteIterator<FileStatus> all = RemoteIterators.mappingRemoteIterator(S3Keys.entries(fs, prefix, deep), entry -> {
            String below = entry.key().substring(prefix.length());
            if (entry.marksFolder() || name != null && !name.matches(below.replaceFirst("/$", ""))) {
                return null;
            }
            FileStatus status = S3Keys.status(fs, entry);
            if (status == null) {
                leave(fs, entry, below, number);
            }
            return status;
        });
        return RemoteIterators.filteringRemoteIterator(all, Objects::nonNull);
    }

    /** Leaves out what no path leads to. */
    private void leave(FileSystem fs, S3Keys.Entry entry, String below, int number) {
        String[] names = below.split("/");
        boolean isHidden = Arrays.stream(names).anyMatch(name -> hidden(name) && !name.equals(".") && !name.equals(".."));
        String name = names.length == 0 ? "" : names[names.length - 1];
        String code = isHidden ? "hidden" : "unaddressable-key";
        String path = fs.getUri() + "/" + entry.key();
        String folder = path.substring(0, path.replaceFirst("/$", "").lastIndexOf('/') + 1);
        leave(number, folder, path, isHidden || entry.object() == null ? code : code(name, entry.modified(), code));
    }

    static boolean hasKeys(FileSystem fs) {
        return "s3a".equals(fs.getUri().getScheme());
    }

    /** Leaves out a folder that a pattern or recursion met and that this user may not list; one that is gone holds nothing. */
    private void unlessDenied(IOException error, Path folder, int number) throws IOException {
        if (Access.isBehind(error, Access::isDenied) && !Access.isLogin(error)) {
            leave(number, folder, "unreadable-folder");
        } else if (!Access.isGone(error)) {
            throw error;
        }
    }

    private static boolean hidden(String name) {
        return name.startsWith(".") || name.startsWith("_") && !name.contains("=");
    }

    /** What a pattern without braces matches. Hadoop's own globber takes a colon in a name for the end of a scheme. */
    private List<FileStatus> matches(FileSystem fs, Path path, int number) throws IOException {
        List<FileStatus> matched = new ArrayList<>();
        Path parent = path.getParent();
        GlobPattern name = new GlobPattern(path.getName());
        if (parent == null || !anyWildcard(path)) {
            named(fs, new Path(unescaped(path.toString())), number, matched);
            return matched;
        }
        boolean wild = anyWildcard(parent);
        for (FileStatus folder : matches(fs, parent, number)) {
            if (!folder.isDirectory()) {
                continue;
            }
            try {
                if (name.hasWildcard()) {
                    scan(fs, folder.getPath(), null, path.getName(), number, matched::add);
                } else {
                    named(fs, new Path(folder.getPath(), new Path(null, null, unescaped(path.getName()))), number, matched);
                }
            } catch (IOException error) {
                if (!wild) {
                    throw error;
                }
                unlessDenied(error, folder.getPath(), number);
            }
        }
        return matched;
    }

    private static boolean anyWildcard(Path path) {
        for (Path part = path; part != null && part.getParent() != null; part = part.getParent()) {
            if (new GlobPattern(part.getName()).hasWildcard()) {
                return true;
            }
        }
        return false;
    }

    private static String unescaped(String path) {
        return path.replaceAll("\\\\(.)", "$1");
    }

    /** Adds the one entry of that name, hidden or a link as it may be: somebody wrote it out. */
    private void named(FileSystem fs, Path path, int number, List<FileStatus> matched) throws IOException {
        try {
            if (hasKeys(fs)) {
                matched.add(S3Keys.folder(path)); // it is there if something lies in it
                return;
            }
            if (isLocal(fs)) {
                java.nio.file.Path local = local(path);
                try {
                    if (Files.readAttributes(local, BasicFileAttributes.class).isOther()) {
                        leave(number, path, "special");
                        return;
                    }
                } catch (FileSystemException error) {
                    if (error instanceof AccessDeniedException || !Files.isSymbolicLink(local)) {
                        throw error;
                    }
                    leave(number, path, "dangling-link");
                    return;
                }
            }
            matched.add(Hdfs.status(fs, path, conf));
        } catch (FileNotFoundException | NoSuchFileException error) {
            // holds nothing
        }
    }

    /**
     * Passes on the files and folders in a folder.
     *
     * @param top the listed folder that it lies in, for links; null while a pattern is followed
     * @param pattern for names; null: all
     */
    private void scan(FileSystem fs, Path folder, Path top, String pattern, int number, ConsumerRaisingIOE<FileStatus> taker) throws IOException {
        GlobPattern name = pattern == null ? null : new GlobPattern(pattern);
        if (isLocal(fs)) {
            scanLocal(fs, folder, top, name, pattern, number, taker);
            return;
        }
        RemoteIterator<? extends FileStatus> entries =
                hasKeys(fs) ? keysBelow(fs, folder, false, name, number) : Hdfs.entries(fs, folder, conf);
        while (!full() && entries.hasNext()) {
            FileStatus entry = entries.next();
            String called = entry.getPath().getName();
            if (name != null && !name.matches(called)) {
                continue;
            }
            if (isHidden(called, pattern)) {
                leave(number, entry.getPath(), entry.isDirectory() ? "hidden-folder" : "hidden");
            } else if (entry.isSymlink()) { // a mount point of viewfs
                List<FileStatus> behind = new ArrayList<>();
                named(fs, entry.getPath(), number, behind);
                if (behind.isEmpty()) {
                    leave(number, entry.getPath(), "dangling-link");
                }
                for (FileStatus one : behind) {
                    taker.accept(one);
                }
            } else {
                taker.accept(entry);
            }
        }
    }

    /** A wildcard matches a hidden name only where the pattern itself begins with its first character, as in a shell. */
    private static boolean isHidden(String name, String pattern) {
        return hidden(name) && (pattern == null || pattern.isEmpty() || pattern.charAt(0) != name.charAt(0));
    }

    /** By the names as they are stored. Hadoop's listing drops those that are no text in the locale's encoding, and follows links. */
    private void scanLocal(FileSystem fs, Path folder, Path top, GlobPattern name, String pattern, int number, ConsumerRaisingIOE<FileStatus> taker) throws IOException {
        try (DirectoryStream<java.nio.file.Path> entries = Files.newDirectoryStream(local(folder))) {
            for (java.nio.file.Path entry : entries) {
                if (full()) {
                    return;
                }
                String called = entry.getFileName().toString();
                // Without a scheme, which is added as Spark writes it: file:///.
                Path path = fs.makeQualified(new Path(null, null, folder.toUri().getPath() + "/" + called));
                if (!isAddressed(entry, path)) {
                    leave(number, folder.toString(), folder.toString().replaceFirst("/$", "") + "/" + visible(entry), "undecodable-name");
                } else if (name == null || name.matches(called)) {
                    try {
                        takeLocal(fs, entry, path, top, name, isHidden(called, pattern), number, taker);
                    } catch (NoSuchFileException error) {
                        // gone since
                    }
                }
            }
        } catch (DirectoryIteratorException error) {
            throw error.getCause();
        }
    }

    private void takeLocal(
            FileSystem fs, java.nio.file.Path entry, Path path, Path top, GlobPattern name, boolean isHidden, int number, ConsumerRaisingIOE<FileStatus> taker)
            throws IOException {
        BasicFileAttributes is = Files.readAttributes(entry, BasicFileAttributes.class, LinkOption.NOFOLLOW_LINKS);
        if (isHidden) {
            leave(number, path, is.isDirectory() ? "hidden-folder" : "hidden");
        } else if (is.isSymbolicLink()) {
            leave(number, path, ofLink(entry, top, name));
        } else if (is.isOther()) {
            leave(number, path, "special");
        } else {
            long size = is.isDirectory() ? 0 : is.size();
            taker.accept(new FileStatus(size, is.isDirectory(), 1, fs.getDefaultBlockSize(path), entry.toFile().lastModified(), path));
        }
    }

    /** A link to what the same listing meets under its own name leaves nothing behind. */
    private String ofLink(java.nio.file.Path link, Path top, GlobPattern name) throws IOException {
        java.nio.file.Path target;
        try {
            target = link.toRealPath();
        } catch (AccessDeniedException error) {
            return "link-outside";
        } catch (FileSystemException error) {
            return "dangling-link";
        }
        boolean beside = link.getParent().toRealPath().equals(target.getParent());
        boolean met;
        if (name != null) {
            met = beside && name.matches(target.getFileName().toString());
        } else if (wanted.recursive()) {
            met = target.startsWith(local(top).toRealPath());
        } else {
            met = beside || Files.isDirectory(target);
        }
        return met ? "link" : "link-outside";
    }

    private static boolean isLocal(FileSystem fs) {
        return "file".equals(fs.getUri().getScheme());
    }

    /** Raises InvalidPathException for a path that cannot be written in the locale's encoding. */
    private static java.nio.file.Path local(Path path) {
        return new File(path.toUri().getPath()).toPath();
    }

    /** True if that path leads to the entry again, byte for byte. */
    private static boolean isAddressed(java.nio.file.Path entry, Path path) {
        try {
            return local(path).equals(entry);
        } catch (InvalidPathException error) {
            return false;
        }
    }

    /** The entry's name, with `\\xNN` for bytes that are no UTF-8. */
    private static String visible(java.nio.file.Path entry) {
        String raw = entry.toUri().getRawPath().replaceFirst("/$", "");
        String name = raw.substring(raw.lastIndexOf('/') + 1);
        String text = URLDecoder.decode(name.replace("+", "%2B"), StandardCharsets.UTF_8);
        return text.indexOf('\uFFFD') < 0 ? text : name.replace("%", "\\x");
    }
}
