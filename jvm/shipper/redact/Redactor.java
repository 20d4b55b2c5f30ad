package shipper.redact;

import java.io.Serializable;
import java.security.GeneralSecurityException;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;

/**
 * The rules of `records.redact` as a function of bytes: what is not found stays as it is, byte for byte. Goes with the job to the executors, and may hold
 * keys: nothing prints it.
 */
public final class Redactor implements UDF1<byte[], byte[]> {
    private static final String HASH = "HmacSHA256";
    private static final int HASH_BYTES = 16;

    private final List<Rule> rules = new ArrayList<>();

    /**
     * @param rule the name of a built-in, or null for {@code regex}
     * @param replacement texts, and numbers of groups in between
     * @param key of the hash in place of {@code replacement}, or null
     */
    public void add(String rule, String regex, List<Object> replacement, byte[] key) {
        rules.add(new Rule(Finder.of(rule, regex), key == null ? new Written(replacement.toArray()) : new Hashed(key)));
    }

    /** The column without what the rules find. What Spark shows of it is its name. */
    public Column redacted(Column bytes) {
        // Here and not in Python: py4j takes either of two methods that differ in whether Spark knows the argument's type.
        return functions.udf((UDF1<byte[], byte[]>) this, DataTypes.BinaryType).withName("redact").apply(bytes);
    }

    @Override
    public byte[] call(byte[] bytes) {
        if (bytes == null || bytes.length == 0) {
            return bytes;
        }
        String before = Text.of(bytes), text = before;
        for (Rule rule : rules) {
            text = rule.apply(text);
        }
        return text == before ? bytes : Text.bytes(text);
    }

    @Override
    public String toString() {
        return "redact";
    }

    private record Rule(Finder finder, Replacement replacement) implements Serializable {
        /** The very same text if nothing was found in it. */
        String apply(String text) {
            Finder.Found found = finder.find(text, 0);
            if (found == null) {
                return text;
            }
            StringBuilder out = new StringBuilder(text.length() + 16);
            int at = 0;
            for (; found != null; found = finder.find(text, at)) {
                out.append(text, at, found.start());
                replacement.append(out, text, found);
                at = found.end();
            }
            return out.append(text, at, text.length()).toString();
        }

        @Override
        public String toString() {
            return "rule";
        }
    }

    private interface Replacement extends Serializable {
        void append(StringBuilder out, String text, Finder.Found found);
    }

    private record Written(Object[] parts) implements Replacement {
        @Override
        public void append(StringBuilder out, String text, Finder.Found found) {
            for (Object part : parts) {
                String written = part instanceof Integer group ? found.groups().group(group) : (String) part;
                out.append(written == null ? "" : written);
            }
        }
    }

    private static final class Hashed implements Replacement {
        private final byte[] key;
        /** Of one task: each has a copy of the function. */
        private transient Mac mac;

        Hashed(byte[] key) {
            this.key = key;
        }

        @Override
        public synchronized void append(StringBuilder out, String text, Finder.Found found) {
            try {
                if (mac == null) {
                    mac = Mac.getInstance(HASH);
                    mac.init(new SecretKeySpec(key, HASH));
                }
                byte[] hash = mac.doFinal(Text.bytes(text.substring(found.start(), found.end())));
                out.append(HexFormat.of().formatHex(hash, 0, HASH_BYTES));
            } catch (GeneralSecurityException error) {
                throw new IllegalStateException("this Java has no " + HASH, error);
            }
        }
    }
}
