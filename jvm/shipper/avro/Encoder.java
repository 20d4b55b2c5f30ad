package shipper.avro;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.EncoderFactory;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;

/**
 * `records.avro` as a function: a JSON object becomes Avro's bytes by one schema, the same object the same bytes each time. Goes with the job to the
 * executors.
 */
public final class Encoder implements UDF1<byte[], byte[]> {
    private final String text;
    /** These are of one task: each has a copy of the function. */
    private transient Schema schema;
    private transient BinaryEncoder binary;

    /** Raises Avro's SchemaParseException for what is no schema. */
    public Encoder(String schema) {
        text = schema;
        new Schema.Parser().parse(schema);
    }

    /** Null where {@code json} is null, and where it does not fit the schema. */
    public Column encoded(Column json) {
        return functions.udf((UDF1<byte[], byte[]>) this, DataTypes.BinaryType).withName("avro").apply(json);
    }

    /** Why {@code json} does not fit, with no word of it; null where it does. */
    public Column misfit(Column json) {
        return functions.udf((UDF1<byte[], String>) this::why, DataTypes.StringType).withName("avro_misfit").apply(json);
    }

    @Override
    public byte[] call(byte[] json) throws IOException {
        try {
            return json == null ? null : bytes(json);
        } catch (Misfit misfit) {
            return null;
        }
    }

    private String why(byte[] json) throws IOException {
        try {
            return json == null || bytes(json) != null ? null : "";
        } catch (Misfit misfit) {
            return misfit.getMessage();
        }
    }

    private synchronized byte[] bytes(byte[] json) throws IOException, Misfit {
        if (schema == null) {
            schema = new Schema.Parser().parse(text);
        }
        Object value = JsonValues.of(schema, json);
        ByteArrayOutputStream out = new ByteArrayOutputStream(1024);
        binary = EncoderFactory.get().binaryEncoder(out, binary);
        // Plain data know no logical type: what is written is what is stored.
        new GenericDatumWriter<>(schema, new GenericData()).write(value, binary);
        binary.flush();
        return out.toByteArray();
    }
}
