package shipper.redact;

/**
 * 13 to 19 digits whose last is their check digit by Luhn: together, or in the groups that cards show, with a blank or a hyphen between. No letter and no `_` stands
 * beside them.
 */
final class Card implements Finder {
    /** Lengths of groups; the last may be shorter, but for those of two kinds of card that are as long as they are. */
    private static final int[][] GROUPS = {{4, 4, 4, 4, -3}, {4, 4, 4, -4}, {4, 6, 5}, {4, 6, 4}};

    @Override
    public Found find(String text, int from) {
        for (int start = from; start < text.length(); start++) {
            if (!begins(text, start)) {
                continue;
            }
            int end = end(text, start);
            if (end > 0) {
                return new Found(start, end, null);
            }
        }
        return null;
    }

    /** Whether a number of a card could begin here: at a digit from 2 to 6, that is neither within a word or number nor behind its decimal point. */
    private static boolean begins(String text, int at) {
        char c = text.charAt(at);
        if (c < '2' || c > '6' || (at > 0 && inWord(text.charAt(at - 1)))) {
            return false;
        }
        return at < 2 || text.charAt(at - 1) != '.' || !digit(text, at - 2);
    }

    private static int end(String text, int start) {
        int length = digits(text, start);
        if (length >= 13 && length <= 19 && ends(text, start + length) && luhn(text, start, start + length)) {
            return start + length;
        }
        int end = start + length;
        if (length != 4 || end >= text.length() || (text.charAt(end) != ' ' && text.charAt(end) != '-')) {
            return -1;
        }
        for (int[] groups : GROUPS) {
            int found = grouped(text, start, groups, text.charAt(end));
            if (found > 0 && ends(text, found) && luhn(text, start, found)) {
                return found;
            }
        }
        return -1;
    }

    private static int grouped(String text, int start, int[] groups, char between) {
        int at = start;
        for (int i = 0; i < groups.length; i++) {
            if (i > 0 && (at >= text.length() || text.charAt(at++) != between)) {
                return -1;
            }
            int length = digits(text, at);
            if (groups[i] > 0 ? length != groups[i] : length < 1 || length > -groups[i]) {
                return -1;
            }
            at += length;
        }
        return at;
    }

    /** How many digits stand here, up to one more than the longest number has. */
    private static int digits(String text, int at) {
        int end = at;
        while (end < text.length() && end < at + 20 && digit(text, end)) {
            end++;
        }
        return end - at;
    }

    private static boolean luhn(String text, int start, int end) {
        int sum = 0;
        boolean doubled = false;
        for (int i = end - 1; i >= start; i--) {
            if (digit(text, i)) {
                int value = (text.charAt(i) - '0') * (doubled ? 2 : 1);
                sum += value > 9 ? value - 9 : value;
                doubled = !doubled;
            }
        }
        return sum % 10 == 0;
    }

    private static boolean ends(String text, int at) {
        return at == text.length() || !inWord(text.charAt(at));
    }

    private static boolean inWord(char c) {
        return c == '_' || Character.isLetterOrDigit(c);
    }

    private static boolean digit(String text, int at) {
        return text.charAt(at) >= '0' && text.charAt(at) <= '9';
    }
}
