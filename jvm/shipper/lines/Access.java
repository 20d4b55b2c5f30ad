package shipper.lines;

import com.google.common.base.Throwables;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.SocketException;
import java.net.SocketTimeoutException;
import java.net.UnknownHostException;
import java.nio.file.AccessDeniedException;
import java.nio.file.NoSuchFileException;
import java.util.Map;
import java.util.Set;
import java.util.function.Predicate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.BlockMissingException;
import org.apache.hadoop.ipc.RemoteException;
import org.apache.hadoop.security.AccessControlException;

/** What keeps a file or a folder from being read though nothing is wrong with its bytes: told apart, and in words for people. */
public final class Access {
    private static final String DENIED = "AccessDenied";
    private static final String ARCHIVED = "InvalidObjectState";
    /** Codes of S3 that say something of the login. */
    private static final Map<String, String> LOGINS = Map.of(
            "InvalidAccessKeyId", "S3 does not know the access key: correct it in `source.s3`",
            "SignatureDoesNotMatch", "the secret key does not belong to the access key: correct it in `source.s3`",
            "ExpiredToken", "the login has expired: give `source.s3` a new session token",
            "InvalidToken", "S3 does not know the session token: give `source.s3` a new one",
            "RequestTimeTooSkewed", "the clock of this machine is wrong, so that S3 refuses its signature: set it (NTP)",
            "NoAuthWithAWSException", "no credentials for S3 were found: name them in `source.s3`");
    private static final Set<String> SILENCES = Set.of(
            "NoHttpResponseException", "ConnectTimeoutException", "ApiCallTimeoutException", "ApiCallAttemptTimeoutException",
            "HttpChannelEOFException", "RetriableException", "StandbyException", "SafeModeException");
    private static final Pattern ADDRESS = Pattern.compile(" to \"?([\\w.\\[\\]-]+:\\d+)");
    private static final Pattern RIGHT = Pattern.compile("user=([^,]+), access=([^,]+), inode=\"([^\"]+)\"");
    /** Words of Hadoop's clients and of Java's Kerberos. */
    private static final Pattern KERBEROS = Pattern.compile(
            "(Client cannot authenticate via|SIMPLE authentication is not enabled|GSS initiate failed|failure to login)[^\\r\\n]*"
                    + "|Token has expired");
    private static final Pattern CLASS = Pattern.compile("^(?:[a-z]\\w*\\.)+[A-Z][\\w$]*: |\\s*\\(SDK Attempt Count: \\d+\\)");

    private Access() {}

    /** The file is not the one that was planned. */
    static final class Changed extends IOException {
        private static final long serialVersionUID = 1L;

        Changed(String what) {
            super(what);
        }
    }

    /**
     * Where the file's bytes are could not be reached, or did not give them: no fault of the file, and another try may go better. Nobody may
     * call such a file damaged.
     */
    static final class Unreachable extends IOException {
        private static final long serialVersionUID = 1L;

        private Unreachable(IOException cause) {
            super(cause);
        }
    }

    /** As Unreachable, unless the error says something of the file: it is gone, or not for this user. */
    static IOException orFault(IOException error) {
        boolean fault = error instanceof Unreachable
                || error instanceof InterruptedIOException && !(error instanceof SocketTimeoutException)
                || isFault(error);
        return fault ? error : new Unreachable(error);
    }

    /** Whether the error or one of its causes is such; what unpacks a file wraps errors. */
    static boolean isBehind(Throwable error, Predicate<Throwable> such) {
        return Throwables.getCausalChain(error).stream().anyMatch(such);
    }

    static boolean isUnreachable(Throwable error) {
        return isBehind(error, one -> one instanceof Unreachable);
    }

    /** Whether another run may read it: the file is out of reach, or denied for now, or not the one that was planned. Such a file is not damaged. */
    static boolean isPassing(Throwable error) {
        return isBehind(error, one -> one instanceof Unreachable || one instanceof Changed || isFault(one)) || isLogin(error);
    }

    /** Whether it says something of the file: it is gone, or not for this user. */
    static boolean isFault(Throwable error) {
        return isDenied(error) || isGone(error);
    }

    static boolean isDenied(Throwable error) {
        return error instanceof AccessControlException || error instanceof AccessDeniedException
                || (error instanceof FileNotFoundException && String.valueOf(error.getMessage()).contains("(Permission denied)"));
    }

    static boolean isGone(Throwable error) {
        return error instanceof FileNotFoundException || error instanceof NoSuchFileException;
    }

    /** Whether S3 or Kerberos does not accept who asks, whatever is asked for. */
    static boolean isLogin(Throwable error) {
        return LOGINS.containsKey(code(error)) || first(KERBEROS, error) != null;
    }

    /** Whether the file system, not a file or a block of it, refuses connections or does not answer. */
    public static boolean isSilent(Throwable error) {
        boolean answers = isBehind(error, one -> isFault(one) || one instanceof BlockMissingException || one instanceof Changed);
        return !answers && (status(error) >= 500 || status(error) == 429 || isBehind(error, Access::isSilence));
    }

    private static boolean isSilence(Throwable error) {
        String name = error instanceof RemoteException remote ? remote.getClassName() : error.getClass().getName();
        return error instanceof SocketException || error instanceof SocketTimeoutException || error instanceof UnknownHostException
                || SILENCES.contains(name.substring(name.lastIndexOf('.') + 1))
                || String.valueOf(error.getMessage()).startsWith("End of File Exception between");
    }

    /** S3's code of an error; empty if it has none. */
    private static String code(Throwable error) {
        for (Throwable one : Throwables.getCausalChain(error)) {
            String name = one.getClass().getName();
            if (name.startsWith("software.amazon.awssdk.") && !S3Answer.code(one).isEmpty()) {
                return S3Answer.code(one);
            }
            if (name.endsWith(".NoAuthWithAWSException") || name.endsWith(".NoAwsCredentialsException")) {
                return "NoAuthWithAWSException";
            }
        }
        return "";
    }

    /** The status of S3's answer; 0 if there is none. */
    private static int status(Throwable error) {
        return Throwables.getCausalChain(error).stream()
                .filter(one -> one.getClass().getName().startsWith("software.amazon.awssdk."))
                .mapToInt(S3Answer::status)
                .max()
                .orElse(0);
    }

    /** The same error with S3's code. An answer to HEAD has none, so S3 is asked in another way. */
    static IOException explained(Path path, Configuration conf, IOException error) throws IOException {
        FileSystem fs = Content.fileSystem(path, conf);
        if (!Entries.hasKeys(fs) || !isBehind(error, Access::isDenied) || !code(error).isEmpty()) {
            return error;
        }
        try {
            S3Keys.entries(fs, S3Keys.key(path), false).hasNext();
        } catch (IOException other) {
            return isLogin(other) ? other : error;
        }
        return error;
    }

    /** Why a file cannot be read, for people. No text of a library that quotes content is in it: they quote numbers and names only. */
    static String why(Throwable error) {
        if (error instanceof Changed) {
            return error.getMessage();
        }
        String known = known(error, "read");
        if (known != null) {
            return known;
        }
        if (isGone(error)) {
            return "it is gone: somebody moved or deleted it after it was listed";
        }
        if (isBehind(error, one -> one instanceof BlockMissingException)) {
            return "no DataNode gives one of its blocks: those that hold it are down, out of reach, or have lost it (`hdfs fsck PATH -files "
                    + "-blocks -locations` says which)";
        }
        return (isUnreachable(error) ? "its bytes could not be had from where it lies: " : "") + message(error);
    }

    /** Why a folder cannot be listed, for people. The driver asks about errors that it gets. */
    public static String whyNotListed(Throwable error) {
        String known = known(error, "list");
        if (known != null) {
            return known;
        }
        return code(error).equals("NoSuchBucket") ? "there is no such bucket: correct `source.path`" : message(error);
    }

    private static String known(Throwable error, String what) {
        String code = code(error);
        if (LOGINS.containsKey(code)) {
            return LOGINS.get(code) + (code.endsWith("Exception") ? "" : " (" + code + ")");
        }
        if (code.equals(ARCHIVED)) {
            return "it is archived (InvalidObjectState): restore it, or leave it out by `source.include`";
        }
        Matcher kerberos = first(KERBEROS, error);
        if (kerberos != null) {
            return "HDFS refuses the Kerberos login: " + kerberos.group();
        }
        if (isBehind(error, Access::isDenied) && !code.isEmpty() && !code.equals(DENIED)) {
            return "S3 refuses it (" + code + "): see what its documentation says of this code";
        }
        if (isBehind(error, Access::isDenied)) {
            Matcher right = first(RIGHT, error);
            return (right == null ? "no permission to " + what + " it" : said(right)) + ": grant it to the user that ships";
        }
        if (!isSilent(error)) {
            return null;
        }
        if (Throwables.getRootCause(error) instanceof UnknownHostException unknown) {
            return "the host " + unknown.getMessage() + " is unknown: check the name, and this machine's DNS";
        }
        Matcher address = first(ADDRESS, error);
        String why = status(error) > 0 ? "HTTP " + status(error) + " " + code : message(error);
        return (address == null ? "the file system" : address.group(1)) + " does not answer (" + why.strip() + ")";
    }

    private static String said(Matcher right) {
        return "user " + right.group(1) + " has no right " + right.group(2) + " on " + right.group(3);
    }

    private static Matcher first(Pattern pattern, Throwable error) {
        for (Throwable one : Throwables.getCausalChain(error)) {
            Matcher found = pattern.matcher(String.valueOf(one.getMessage()));
            if (found.find()) {
                return found;
            }
        }
        return null;
    }

    /** The first line of the root's message without names of classes. */
    private static String message(Throwable error) {
        Throwable root = Throwables.getRootCause(error);
        String text = root.getMessage() == null ? "" : root.getMessage().lines().findFirst().orElse("");
        if (text.equals("Unexpected end of input stream")) { // Hadoop's, of gzip alone
            return "it is cut off: its gzip content has no end";
        }
        text = CLASS.matcher(text).replaceAll("").strip();
        return text.isEmpty() ? root.getClass().getSimpleName() : text;
    }
}
