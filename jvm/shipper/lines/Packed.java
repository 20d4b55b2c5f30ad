package shipper.lines;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Base64;

/**
 * What goes between Python and Java in one call, since each call costs more than a file: numbers big-endian, each text (UTF-8, any bytes) with
 * its length before it. What Java answers is Base64 of that. spark_jobs/packed.py is the other side.
 */
final class Packed {
    private Packed() {}

    static DataInputStream reader(byte[] packed) {
        return new DataInputStream(new ByteArrayInputStream(packed));
    }

    static String text(DataInputStream in) throws IOException {
        byte[] bytes = new byte[in.readInt()];
        in.readFully(bytes);
        return new String(bytes, StandardCharsets.UTF_8);
    }

    /** Writes to memory, which cannot fail. */
    static final class Writer {
        private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        private final DataOutputStream out = new DataOutputStream(bytes);

        Writer number(long number) throws IOException {
            out.writeLong(number);
            return this;
        }

        Writer text(String text) throws IOException {
            return bytes(text.getBytes(StandardCharsets.UTF_8));
        }

        Writer bytes(byte[] content) throws IOException {
            out.writeInt(content.length);
            out.write(content);
            return this;
        }

        /** As Base64: Py4J decodes bytes one by one in Python, which takes a second for a megabyte, and hands texts on as they are. */
        String packed() {
            return Base64.getEncoder().encodeToString(bytes.toByteArray());
        }
    }
}
