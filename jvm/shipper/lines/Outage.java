package shipper.lines;

import java.io.IOException;
import java.net.URI;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BooleanSupplier;
import org.apache.hadoop.fs.Path;

/**
 * A time in which a file system does not answer, shared by all tasks in this JVM: it is waited for once, not once for each file. A file system
 * that was given up is asked again at times.
 */
final class Outage {
    private static final Map<String, Outage> OF = new ConcurrentHashMap<>();
    private static final long SECOND = 1_000_000_000L;
    private static final long ASKED_AGAIN_AFTER = 30 * SECOND;

    private Exception error;
    private long began;
    private long last;
    private volatile boolean givenUp;

    private Outage() {}

    /** The outages of the file system in which a path lies. */
    static Outage of(Path path) {
        URI uri = path.toUri();
        return OF.computeIfAbsent(uri.getScheme() + "://" + uri.getAuthority(), key -> new Outage());
    }

    /** Whether the file system has given nothing since it did not answer. */
    synchronized boolean isOn() {
        return error != null;
    }

    /** The file system has given something. */
    synchronized void end() {
        error = null;
        givenUp = false;
    }

    /** Raises the error of a file system that was given up a moment ago. */
    synchronized void check() throws IOException {
        if (givenUp && System.nanoTime() - last < ASKED_AGAIN_AFTER) {
            throw new IOException(error);
        }
    }

    /** Waits a while after an error; returns false if it was waited long enough, or if the task is being stopped. */
    boolean waited(Exception found, long seconds, BooleanSupplier stops) {
        long now = System.nanoTime();
        long until;
        synchronized (this) {
            if (givenUp && now - last < ASKED_AGAIN_AFTER) {
                return false; // the error that check() raised
            }
            boolean goesOn = error != null && now - last < ASKED_AGAIN_AFTER + seconds * SECOND;
            began = goesOn ? began : now;
            error = found;
            last = now;
            givenUp = now - began >= seconds * SECOND;
            until = now + Math.min(10 * SECOND, SECOND / 2 + (now - began) / 2);
        }
        while (!givenUp && !stops.getAsBoolean() && System.nanoTime() < until) {
            try {
                Thread.sleep(100);
            } catch (InterruptedException stopped) {
                Thread.currentThread().interrupt();
                return false;
            }
        }
        return !givenUp && !stops.getAsBoolean();
    }
}
