#!/bin/bash
# `executor` is what Spark starts its executors' pods with, and it tells them the rest by these variables. Anything else is a command.
set -e
if [ "$1" != executor ]; then
  exec "$@"
fi
home=$(python -c 'import importlib.util; print(importlib.util.find_spec("pyspark").submodule_search_locations[0])')
options=()
for ((n = 0; ; n++)); do
  name=SPARK_JAVA_OPT_$n
  [ -n "${!name}" ] || break
  options+=("${!name}")
done
exec "${JAVA_HOME:+$JAVA_HOME/bin/}java" "${options[@]}" -Xms"$SPARK_EXECUTOR_MEMORY" -Xmx"$SPARK_EXECUTOR_MEMORY" \
  -cp "$SPARK_CONF_DIR:$home/jars/*" \
  org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
  --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
  --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
  --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
