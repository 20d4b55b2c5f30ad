import java.nio.file.Paths;
import java.util.Properties;
import org.apache.flink.api.common.RuntimeExecutionMode;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.file.src.FileSource;
import org.apache.flink.connector.file.src.reader.TextLineInputFormat;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.core.execution.CheckpointingMode;
import org.apache.flink.core.fs.Path;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Flink's FileSource to its KafkaSink, exactly once, as a user runs it: one job on a cluster within this JVM, one fresh process. For
 * {@code shipper bench cold}: FOLDER TOPIC TRANSACTIONAL_ID_PREFIX CHECKPOINT_MS KEY=VALUE…, the last of them settings of the producers.
 */
public final class FlinkSink {
    private static final int TASKS = 2;

    public static void main(String[] told) {
        try {
            ship(told);
        } catch (Exception error) {
            Throwable root = error; // Flink wraps it ten times over, and who reads it sees the end of what is printed
            while (root.getCause() != null) {
                root = root.getCause();
            }
            System.err.println(root);
            System.exit(1);
        }
    }

    private static void ship(String[] told) throws Exception {
        Properties producer = new Properties();
        for (int i = 4; i < told.length; i++) {
            String[] pair = told[i].split("=", 2);
            producer.setProperty(pair[0], pair[1]);
        }
        Configuration settings = new Configuration();
        settings.set(RestartStrategyOptions.RESTART_STRATEGY, "none"); // by default it tries again for ever
        StreamExecutionEnvironment job = StreamExecutionEnvironment.getExecutionEnvironment(settings);
        // The input is bounded, but a BATCH job has no checkpoints, on which the sink commits. The last one is taken when all has been read.
        job.setRuntimeMode(RuntimeExecutionMode.STREAMING);
        job.setParallelism(TASKS);
        job.enableCheckpointing(Long.parseLong(told[3]), CheckpointingMode.EXACTLY_ONCE);
        FileSource<String> files =
                FileSource.forRecordStreamFormat(new TextLineInputFormat(), new Path(Paths.get(told[0]).toUri())).build();
        KafkaSink<String> sink =
                KafkaSink.<String>builder()
                        .setBootstrapServers(producer.getProperty("bootstrap.servers"))
                        .setKafkaProducerConfig(producer)
                        .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
                        .setTransactionalIdPrefix(told[2])
                        .setRecordSerializer(
                                KafkaRecordSerializationSchema.builder()
                                        .setTopic(told[1])
                                        .setValueSerializationSchema(new SimpleStringSchema())
                                        .build())
                        .build();
        job.fromSource(files, WatermarkStrategy.noWatermarks(), "files").sinkTo(sink);
        job.execute("files to topic");
    }
}
