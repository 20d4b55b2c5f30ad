import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;

/** Where Java's producer puts keys. Arguments: a file with a key per line in hex, then numbers of partitions. Prints a line per key. */
public class Place {
    public static void main(String[] arguments) throws Exception {
        StringBuilder out = new StringBuilder();
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            byte[] key = HexFormat.of().parseHex(line);
            for (int index = 1; index < arguments.length; index++) {
                out.append(BuiltInPartitioner.partitionForKey(key, Integer.parseInt(arguments[index]))).append(' ');
            }
            out.append('\n');
        }
        System.out.print(out);
    }
}
