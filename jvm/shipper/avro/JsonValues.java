package shipper.avro;

import com.fasterxml.jackson.core.JacksonException;
import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.databind.util.TokenBuffer;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;

/**
 * A JSON value as the value of a schema. Nothing is guessed, filled up or cut off: a field that is not there is null where the schema takes a null, and
 * a misfit elsewhere, whatever default the schema has for readers; a field that the schema does not have is a misfit.
 */
final class JsonValues {
    private static final JsonFactory JSON = JsonFactory.builder()
            .disable(JsonFactory.Feature.INTERN_FIELD_NAMES) // keys of maps are as many as there are records
            .disable(JsonFactory.Feature.CHARSET_DETECTION) // UTF-8, whatever the first bytes look like
            .streamReadConstraints(StreamReadConstraints.builder().maxStringLength(Integer.MAX_VALUE).build())
            .build();

    private JsonValues() {}

    /** Raises Misfit. */
    static Object of(Schema schema, byte[] json) throws Misfit, IOException {
        try (JsonParser parser = JSON.createParser(json)) {
            expect(parser.nextToken() == JsonToken.START_OBJECT, "a JSON object");
            Object found = value(schema, parser);
            if (parser.nextToken() != null) {
                throw new Misfit("something follows the JSON object");
            }
            return found;
        } catch (JacksonException error) { // quotes what it found
            throw new Misfit("no JSON in UTF-8");
        }
    }

    /** Of what begins at the parser's token; leaves it at the last one. */
    private static Object value(Schema schema, JsonParser parser) throws Misfit, IOException {
        return switch (schema.getType()) {
            case RECORD -> record(schema, parser);
            case ARRAY -> array(schema.getElementType(), parser);
            case MAP -> map(schema.getValueType(), parser);
            case UNION -> union(schema.getTypes(), parser);
            default -> Scalars.value(schema, parser);
        };
    }

    private static Object record(Schema schema, JsonParser parser) throws Misfit, IOException {
        expect(parser.currentToken() == JsonToken.START_OBJECT, "an object");
        GenericData.Record found = new GenericData.Record(schema);
        boolean[] there = new boolean[schema.getFields().size()];
        while (parser.nextToken() != JsonToken.END_OBJECT) {
            Schema.Field field = schema.getField(parser.currentName());
            if (field == null) {
                throw new Misfit("a field that the schema does not have");
            }
            if (there[field.pos()]) {
                throw new Misfit("is there twice").in(field.name());
            }
            there[field.pos()] = true;
            parser.nextToken();
            try {
                found.put(field.pos(), value(field.schema(), parser));
            } catch (Misfit misfit) {
                throw misfit.in(field.name());
            }
        }
        for (Schema.Field field : schema.getFields()) {
            if (!there[field.pos()] && !field.schema().isNullable()) {
                throw new Misfit("is not there, and may not be null").in(field.name());
            }
        }
        return found;
    }

    private static List<Object> array(Schema of, JsonParser parser) throws Misfit, IOException {
        expect(parser.currentToken() == JsonToken.START_ARRAY, "an array");
        List<Object> found = new ArrayList<>();
        while (parser.nextToken() != JsonToken.END_ARRAY) {
            try {
                found.add(value(of, parser));
            } catch (Misfit misfit) {
                throw misfit.in("[]");
            }
        }
        return found;
    }

    private static Map<String, Object> map(Schema of, JsonParser parser) throws Misfit, IOException {
        expect(parser.currentToken() == JsonToken.START_OBJECT, "an object");
        Map<String, Object> found = new LinkedHashMap<>();
        while (parser.nextToken() != JsonToken.END_OBJECT) {
            String key = parser.currentName();
            parser.nextToken();
            try {
                if (found.containsKey(key)) {
                    throw new Misfit("a key is there twice");
                }
                found.put(key, value(of, parser));
            } catch (Misfit misfit) {
                throw misfit.in("[]");
            }
        }
        return found;
    }

    /** The first of its types that the value fits. */
    private static Object union(List<Schema> types, JsonParser parser) throws Misfit, IOException {
        boolean isNull = parser.currentToken() == JsonToken.VALUE_NULL;
        List<Schema> candidates = types.stream().filter(type -> (type.getType() == Schema.Type.NULL) == isNull).toList();
        if (candidates.size() == 1) {
            return value(candidates.get(0), parser);
        }
        if (isNull) {
            throw new Misfit("may not be null");
        }
        try (TokenBuffer kept = new TokenBuffer(parser)) {
            kept.copyCurrentStructure(parser);
            for (Schema candidate : candidates) {
                try (JsonParser again = kept.asParser(parser.streamReadConstraints())) {
                    again.nextToken();
                    return value(candidate, again);
                } catch (Misfit misfit) {
                    // perhaps the next one
                }
            }
        }
        throw new Misfit("fits none of the types of its union");
    }

    static void expect(boolean isThere, String what) throws Misfit {
        if (!isThere) {
            throw new Misfit("expected " + what);
        }
    }
}
