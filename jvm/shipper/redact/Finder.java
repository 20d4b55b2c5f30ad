package shipper.redact;

import java.io.Serializable;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Finds what a rule is about. All of them take time in proportion to the text, whatever is in it; of a pattern of the user's nobody knows. */
interface Finder extends Serializable {
    /** What was found: the characters [start, end), and, of a pattern of the user's, its groups. */
    record Found(int start, int end, Matcher groups) {}

    /** The first at or behind {@code from}, or null. */
    Found find(String text, int from);

    static Finder of(String rule, String regex) {
        if (rule == null) {
            return new Regex(Pattern.compile(regex), 0, false);
        }
        return switch (rule) {
            case "email" -> new Regex(EMAIL, 0, true);
            case "ipv4" -> new Regex(IPV4, 0, false);
            case "ipv6" -> new Ipv6();
            case "card" -> new Card();
            case "bearer" -> new Regex(BEARER, 1, false);
            default -> throw new IllegalArgumentException(rule);
        };
    }

    /**
     * A name is tried from its first character only, and never given back in part: else a long word without an @ would cost its length
     * squared. Behind a %40 that is no address's, another name may begin.
     */
    Pattern EMAIL = Pattern.compile(
            "(?:(?<![\\p{L}\\p{M}\\p{N}._%+-])|(?<=%40))(?:[\\p{L}\\p{M}\\p{N}._+-]|%(?!40))++(?:@|%40)"
                    + "[\\p{L}\\p{M}\\p{N}-]++(?:\\.[\\p{L}\\p{M}\\p{N}-]++)++");

    String OCTET = "(?:25[0-5]|2[0-4][0-9]|[01]?[0-9]?[0-9])";

    Pattern IPV4 = Pattern.compile(
            "(?<![0-9])(?<![0-9]\\.)" + OCTET + "(?:\\." + OCTET + "){3}(?![0-9])(?!\\.[0-9])");

    Pattern BEARER = Pattern.compile(
            "(?<![A-Za-z0-9])(?i:bearer)(?:[ \\t:=]++|%20|\\+)([A-Za-z0-9._~+/=%-]++)");

    /** Group {@code group} of each match. {@code afresh}: as if nothing stood in front of what is left of the text. */
    record Regex(Pattern pattern, int group, boolean afresh) implements Finder {
        @Override
        public Found find(String text, int from) {
            Matcher matcher = pattern.matcher(text);
            boolean found = afresh ? matcher.region(from, text.length()).find() : matcher.find(from);
            for (; found; found = matcher.find()) {
                if (matcher.end(group) > matcher.start(group)) {
                    return new Found(matcher.start(group), matcher.end(group), matcher);
                }
            }
            return null;
        }
    }
}
