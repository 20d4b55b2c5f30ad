package shipper.lines;

import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;

/**
 * All groups of a regular expression from one match, as `regexp_extract` gives one of them: that decodes the line and searches it anew for each. Goes with the
 * job to the executors.
 */
public final class Groups implements UDF1<String, String[]> {
    private final Pattern pattern;

    public Groups(String regex) {
        pattern = Pattern.compile(regex);
    }

    /** Groups 1, 2, … of each text, empty where one takes no part in the match; null where nothing is found. */
    public Column found(Column text) {
        // Here and not in Python: py4j takes either of two methods that differ in whether Spark knows the argument's type.
        return functions.udf((UDF1<String, String[]>) this, DataTypes.createArrayType(DataTypes.StringType))
                .withName("regex_groups")
                .apply(text);
    }

    @Override
    public String[] call(String text) {
        Matcher found = text == null ? null : pattern.matcher(text);
        if (found == null || !found.find()) {
            return null;
        }
        String[] groups = new String[found.groupCount()];
        for (int i = 0; i < groups.length; i++) {
            String group = found.group(i + 1);
            groups[i] = group == null ? "" : group;
        }
        return groups;
    }
}
