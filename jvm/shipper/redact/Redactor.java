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
        Draft before = new Draft().keep(Text.of(bytes)), draft = before;
        for (Rule rule : rules) {
            draft = rule.apply(draft);
        }
        return draft == before ? bytes : Text.bytes(draft.text());
    }

    @Override
    public String toString() {
        return "redact";
    }

    private record Rule(Finder finder, Replacement replacement) implements Serializable {
        /** The very same draft if nothing was found in it. */
        Draft apply(Draft draft) {
            Draft out = new Draft();
            boolean any = false;
            for (int i = 0; i < draft.size(); i++) {
                String part = draft.part(i);
                if (draft.isPutIn(i)) {
                    out.put(part);
                    continue;
                }
                int at = 0;
                for (Finder.Found found = finder.find(part, 0); found != null; found = finder.find(part, at)) {
                    out.keep(part.substring(at, found.start()));
                    replacement.put(out, part, found);
                    at = found.end();
                    any = true;
                }
                out.keep(part.substring(at));
            }
            return any ? out : draft;
        }

        @Override
        public String toString() {
            return "rule";
        }
    }

    private interface Replacement extends Serializable {
        void put(Draft out, String text, Finder.Found found);
    }

    private record Written(Object[] parts) implements Replacement {
        @Override
        public void put(Draft out, String text, Finder.Found found) {
            for (Object part : parts) {
                if (part instanceof String written) {
                    out.put(written);
                } else {
                    String group = found.groups().group((Integer) part);
                    out.keep(group == null ? "" : group);
                }
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
        public synchronized void put(Draft out, String text, Finder.Found found) {
            try {
                if (mac == null) {
                    mac = Mac.getInstance(HASH);
                    mac.init(new SecretKeySpec(key, HASH));
                }
                byte[] hash = mac.doFinal(Text.bytes(text.substring(found.start(), found.end())));
                out.put(HexFormat.of().formatHex(hash, 0, HASH_BYTES));
            } catch (GeneralSecurityException error) {
                throw new IllegalStateException("this Java has no " + HASH, error);
            }
        }
    }
}
