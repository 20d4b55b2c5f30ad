package shipper.lines;

import java.io.DataInputStream;
import java.io.IOException;
import java.io.Serializable;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;

/**
 * How the content of files is cut into records, where a file does not say so itself (as Parquet, ORC and Avro do).
 *
 * @param kind `lines`, `starts_with`, `csv` or `whole_file`
 * @param startsWith what the first line of a record begins with; null for other kinds
 * @param delimiter between the fields of a row
 * @param quote -1 for none
 * @param encoding of the file
 * @param columns names of the fields; empty if the first row of each file names them
 */
record Framing(String kind, Pattern startsWith, byte delimiter, int quote, String encoding, List<String> columns) implements Serializable {

    /** Throws IOException for an encoding that Java does not know. */
    Charset charset() throws IOException {
        try {
            return Charset.forName(encoding);
        } catch (IllegalArgumentException error) {
            throw new IOException("Java knows no encoding " + encoding + ": correct `source.encoding`");
        }
    }

    boolean isUtf8() throws IOException {
        return charset().equals(StandardCharsets.UTF_8);
    }

    /** What spark_jobs/reader.py packed: the kind, the pattern, the delimiter, the quote (empty for none), the encoding, and the columns with their count. */
    static Framing unpack(byte[] packed) throws IOException {
        DataInputStream in = Packed.reader(packed);
        String kind = Packed.text(in);
        String pattern = Packed.text(in);
        String delimiter = Packed.text(in);
        String quote = Packed.text(in);
        String encoding = Packed.text(in);
        List<String> columns = new ArrayList<>();
        for (long left = in.readLong(); left > 0; left--) {
            columns.add(Packed.text(in));
        }
        return new Framing(
                kind, kind.equals("starts_with") ? Pattern.compile(pattern) : null, (byte) delimiter.charAt(0),
                quote.isEmpty() ? -1 : quote.charAt(0), encoding, List.copyOf(columns));
    }
}
