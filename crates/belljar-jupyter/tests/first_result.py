"""The time from the start of a kernel to its first result with pandas: Belljar's kernel beside ipykernel.

Both have the same packages. Prints the median of each, and their ratio.
"""

import statistics
import sys
import time

from jupyter_client.manager import start_new_kernel

CODE = "import pandas as pd\nprint(pd.DataFrame({'a': [1, 2]}).sum().a)"


def measure(name):
    begin = time.monotonic()
    manager, client = start_new_kernel(kernel_name=name)
    ready = time.monotonic()
    texts = []
    client.execute_interactive(CODE, output_hook=lambda message: texts.append(message["content"].get("text", "")))
    end = time.monotonic()
    client.execute_interactive("x = pd.DataFrame({'a': [1, 2]}).sum()")
    again = time.monotonic()
    client.stop_channels()
    manager.shutdown_kernel(now=True)
    assert "".join(texts) == "3\n", texts
    return end - begin, end - ready, again - end


repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 3
medians = {}
for name in ["python3", "belljar-notebooks"]:
    results = [measure(name) for _ in range(repeats)]
    medians[name] = [statistics.median(times) for times in zip(*results)]
for place, what in enumerate(["start and first result", "first result of a started kernel", "the next cell"]):
    theirs, ours = medians["python3"][place], medians["belljar-notebooks"][place]
    print(f"{what}: ipykernel {theirs * 1000:.0f} ms, Belljar {ours * 1000:.0f} ms, ratio {theirs / ours:.1f}")
