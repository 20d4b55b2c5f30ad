"""In place of ``python``: a module of shipper's or Spark's runs in a fork of the warm one
(server.py), anything else in the real one.

Starts without `site` and imports nothing that takes time.
"""

import marshal
import os
import socket
import struct
import sys

socket_path, real, *arguments = sys.argv[1:]
if arguments[:1] != ["-m"] or arguments[1] not in ("shipper", "spark_jobs", "pyspark.daemon"):
    os.execv(real, [real, *arguments])
body = marshal.dumps((arguments[1:], dict(os.environ), os.getcwd()))  # noqa: PTH109 - importing pathlib takes longer than the rest
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(socket_path)
    socket.send_fds(connection, [struct.pack("!I", len(body))], [0, 1, 2])
    connection.sendall(body)
    answer = connection.recv(4)
code = struct.unpack("!i", answer)[0] if len(answer) == 4 else 1
if code < 0:
    import resource
    import signal

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if -code != signal.SIGKILL:  # of which nobody may be asked what to do
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
