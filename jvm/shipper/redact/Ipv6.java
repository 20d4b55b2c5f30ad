package shipper.redact;

import com.google.common.net.InetAddresses;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * In a run of letters, digits and colons: consecutive groups that are hexadecimal or empty, if all of them together are an address. So the time 12:34:56
 * is none, nor is the end of a longer list; nor is a colon that only stands in front of it or behind it a part of it.
 */
final class Ipv6 implements Finder {
    private static final String OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";
    private static final Pattern DOTTED = Pattern.compile(OCTET + "(?:\\." + OCTET + "){3}(?![0-9A-Za-z])(?!\\.[0-9])");

    @Override
    public Found find(String text, int from) {
        int at = from;
        while (at < text.length()) {
            if (!inRun(text.charAt(at))) {
                at++;
                continue;
            }
            int end = at, colons = 0;
            while (end < text.length() && inRun(text.charAt(end))) {
                colons += text.charAt(end++) == ':' ? 1 : 0;
            }
            Found found = colons >= 2 ? inRun(text, at, end) : null;
            if (found != null) {
                return found;
            }
            at = end;
        }
        return null;
    }

    private static Found inRun(String text, int start, int end) {
        int first = -1;
        for (int at = start; at <= end; ) {
            int stop = text.indexOf(':', at);
            stop = stop < 0 || stop > end ? end : stop;
            boolean group = stop - at <= 4 && allHex(text, at, stop);
            if (group && first < 0) {
                first = at;
            }
            if (first >= 0 && (!group || stop == end)) {
                Found found = group ? last(text, first, at, end) : address(text, first, at - 1);
                if (found != null) {
                    return found;
                }
                first = -1;
            }
            at = stop + 1;
        }
        return null;
    }

    /** Groups up to the run's end, where the last may be an IPv4 address that goes on behind it. */
    private static Found last(String text, int first, int group, int end) {
        if (end < text.length() && text.charAt(end) == '.') {
            Matcher dotted = DOTTED.matcher(text).region(group, text.length()).useTransparentBounds(true);
            if (dotted.lookingAt()) {
                Found found = address(text, first, dotted.end());
                if (found != null) {
                    return found;
                }
            }
        }
        return address(text, first, end);
    }

    /** [start, end), or that without a colon behind it, in front of it, or both; null if none is an address. */
    private static Found address(String text, int start, int end) {
        for (int without = 0; without < 4; without++) {
            int from = start + (without & 2) / 2, to = end - (without & 1);
            if (from >= to) {
                return null;
            }
            boolean colons = (from == start || text.charAt(start) == ':') && (to == end || text.charAt(end - 1) == ':');
            if (colons && isAddress(text.substring(from, to))) {
                return new Found(from, to, null);
            }
        }
        return null;
    }

    /** Neither `::` alone nor an IPv4 address is one here. */
    private static boolean isAddress(String text) {
        return text.length() > 2 && text.indexOf(':') >= 0 && InetAddresses.isInetAddress(text);
    }

    private static boolean inRun(char c) {
        return c == ':' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    }

    private static boolean allHex(String text, int start, int end) {
        for (int i = start; i < end; i++) {
            char c = text.charAt(i);
            if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'))) {
                return false;
            }
        }
        return true;
    }
}
