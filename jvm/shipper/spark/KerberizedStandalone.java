package shipper.spark;

import org.apache.spark.SparkContext;
import org.apache.spark.deploy.security.HadoopDelegationTokenManager;
import org.apache.spark.scheduler.ExternalClusterManager;
import org.apache.spark.scheduler.SchedulerBackend;
import org.apache.spark.scheduler.TaskScheduler;
import org.apache.spark.scheduler.TaskSchedulerImpl;
import org.apache.spark.scheduler.cluster.StandaloneSchedulerBackend;
import org.apache.spark.util.Utils;
import scala.Option;

/**
 * A standalone Spark whose driver gives its executors delegation tokens, and new ones before those end, as on YARN and Kubernetes. Spark's own
 * backend of a standalone master passes tokens on too, but has nobody who takes any.
 */
public final class KerberizedStandalone implements ExternalClusterManager {
    private static final String PREFIX = "kerberized:";

    @Override
    public boolean canCreate(String master) {
        return master.startsWith(PREFIX);
    }

    @Override
    public TaskScheduler createTaskScheduler(SparkContext context, String master) {
        return new TaskSchedulerImpl(context);
    }

    @Override
    public SchedulerBackend createSchedulerBackend(SparkContext context, String master, TaskScheduler scheduler) {
        String[] masters = Utils.parseStandaloneMasterUrls(master.substring(PREFIX.length()));
        return new StandaloneSchedulerBackend((TaskSchedulerImpl) scheduler, context, masters) {
            @Override
            public Option<HadoopDelegationTokenManager> createTokenManager() {
                return Option.apply(new HadoopDelegationTokenManager(context.conf(), context.hadoopConfiguration(), driverEndpoint()));
            }
        };
    }

    @Override
    public void initialize(TaskScheduler scheduler, SchedulerBackend backend) {
        ((TaskSchedulerImpl) scheduler).initialize(backend);
    }
}
