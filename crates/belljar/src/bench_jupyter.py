"""Starts a Jupyter kernel, runs one cell, and stops it, N times; prints the seconds as JSON."""

import json
import sys
import time

from jupyter_client.manager import KernelManager

rounds, cell = int(sys.argv[1]), sys.argv[2]
seconds = []
for _ in range(rounds):
    started = time.perf_counter()
    manager = KernelManager()
    manager.kernel_cmd = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=120)
    reply = client.execute_interactive(cell, timeout=120, output_hook=lambda message: None)
    seconds.append(time.perf_counter() - started)
    assert reply["content"]["status"] == "ok", reply["content"]
    client.stop_channels()
    manager.shutdown_kernel(now=True)
print(json.dumps(seconds))
