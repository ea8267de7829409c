"""The time from the start of a kernel to its first result with pandas: ipykernel, Belljar's kernel, and a kernel of a service.

All have the same packages. Prints the median of each, and the ratios to ipykernel. The address of the service is in
BELLJAR_URL, a key in BELLJAR_API_KEY.
"""

import json
import os
import statistics
import sys
import time
import urllib.request

import websocket
from jupyter_client.manager import start_new_kernel

CODE = "import pandas as pd\nprint(pd.DataFrame({'a': [1, 2]}).sum().a)"
AGAIN = "x = pd.DataFrame({'a': [1, 2]}).sum()"


def measure(name):
    """Start and first result; first result of a started kernel; the next cell."""
    begin = time.monotonic()
    manager, client = start_new_kernel(kernel_name=name)
    ready = time.monotonic()
    texts = []
    client.execute_interactive(CODE, output_hook=lambda message: texts.append(message["content"].get("text", "")))
    end = time.monotonic()
    client.execute_interactive(AGAIN)
    again = time.monotonic()
    client.stop_channels()
    manager.shutdown_kernel(now=True)
    assert "".join(texts) == "3\n", texts
    return end - begin, end - ready, again - end


class ServiceKernel:
    """A kernel of a service, with the least that a client does."""

    def __init__(self):
        self.url, self.key = os.environ["BELLJAR_URL"] + "/jupyter", os.environ["BELLJAR_API_KEY"]
        self.id = self.request("POST", "/api/kernels", {"name": "python3"})["id"]
        self.posted = time.monotonic()
        address = f"{self.url.replace('http', 'ws', 1)}/api/kernels/{self.id}/channels?token={self.key}"
        self.socket = websocket.create_connection(address, timeout=60)

    def request(self, method, path, body=None):
        headers = {"Authorization": f"token {self.key}"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, headers=headers, method=method)
        with urllib.request.urlopen(request) as response:
            return json.loads(response.read() or "null")

    def ask(self, kind, content):
        """Sends a request. Returns the text of its output, when the kernel is idle again."""
        header = {"msg_id": kind + str(time.monotonic()), "msg_type": kind, "session": "s", "username": "", "version": "5.4"}
        message = {"channel": "shell", "header": header, "parent_header": {}, "metadata": {}, "content": content}
        self.socket.send(json.dumps(message))
        texts = []
        while True:
            heard = json.loads(self.socket.recv())
            if heard["parent_header"].get("msg_id") == header["msg_id"]:
                texts.append(heard["content"].get("text", ""))
                if heard["content"].get("execution_state") == "idle":
                    return "".join(texts)

    def close(self):
        self.socket.close()
        self.request("DELETE", f"/api/kernels/{self.id}")


def measure_service():
    """The same, and where the time of the first goes: the request, the connection with `kernel_info`, the cell."""
    begin = time.monotonic()
    kernel = ServiceKernel()
    kernel.ask("kernel_info_request", {})
    ready = time.monotonic()
    text = kernel.ask("execute_request", {"code": CODE})
    end = time.monotonic()
    kernel.ask("execute_request", {"code": AGAIN})
    again = time.monotonic()
    kernel.close()
    assert text == "3\n", text
    profile = kernel.posted - begin, ready - kernel.posted, end - ready
    return end - begin, end - ready, again - end, *profile


def medians(results):
    return [statistics.median(times) * 1000 for times in zip(*results)]


repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 3
theirs = medians([measure("python3") for _ in range(repeats)])
ours = medians([measure("belljar-notebooks") for _ in range(repeats)])
# The first one of a tenant starts the tenant's own template.
cold = measure_service()[0] * 1000
service = medians([measure_service() for _ in range(max(repeats, 5))])
for place, what in enumerate(["start and first result", "first result of a started kernel", "the next cell"]):
    print(
        f"{what}: ipykernel {theirs[place]:.0f} ms; Belljar's kernel {ours[place]:.0f} ms, "
        f"ratio {theirs[place] / ours[place]:.1f}; a service {service[place]:.0f} ms, ratio {theirs[place] / service[place]:.1f}"
    )
print(f"the first kernel of a tenant: {cold:.0f} ms")
print("of the service's first: request {:.0f} ms, connection and kernel_info {:.0f} ms, cell {:.0f} ms".format(*service[3:]))
