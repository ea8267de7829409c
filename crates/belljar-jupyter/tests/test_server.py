"""The kernels of a service with Jupyter's own clients: nbconvert by the gateway, and jupyter_kernel_client.

Run by .ci/jupyter, which starts the service. Its address is in BELLJAR_URL, a key in BELLJAR_API_KEY.
"""

import os
import subprocess
import sys
import threading
import time
import unittest

import corpus
import nbformat
from jupyter_kernel_client import JupyterKernelClient

URL = os.environ["BELLJAR_URL"]
KEY = os.environ["BELLJAR_API_KEY"]
HERE = os.path.dirname(__file__)
SEGFAULT = "import ctypes; ctypes.string_at(0)"
BIN = os.path.dirname(sys.executable)


def gateway_block():
    """The lines of docs/jupyter.md that run a notebook by the gateway, for the service of this test."""
    with open(os.path.join(HERE, "../../../docs/jupyter.md")) as page:
        blocks = [part.split("```")[0] for part in page.read().split("```bash\n")[1:]]
    (block,) = [block for block in blocks if "nbconvert" in block]
    return block.replace("127.0.0.1:7878", URL.removeprefix("http://"))


def run(block, directory):
    environment = {**os.environ, "PATH": BIN + os.pathsep + os.environ["PATH"]}
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block], cwd=directory, env=environment, capture_output=True, text=True
    )


class Gateway(unittest.TestCase):
    def setUp(self):
        self.directory = os.path.join(os.environ["BELLJAR_TEST_DIRECTORY"], self.id().rsplit(".", 1)[1])
        os.mkdir(self.directory)

    def test_the_lines_of_the_page_run(self):
        path = os.path.join(self.directory, "analysis.ipynb")
        cells = [nbformat.v4.new_code_cell(code) for code in ["x = 41", "print(x + 1)"]]
        nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
        ended = run(gateway_block(), self.directory)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        executed = nbformat.read(path, as_version=4)
        self.assertEqual(executed.cells[1].outputs[0].text, "42\n")

    def test_the_corpus_runs(self):
        """nbconvert executes the 12 notebooks by the gateway."""
        names = " ".join(f"'{os.path.abspath(path)}'" for path in corpus.PATHS)
        block = gateway_block().replace("--inplace analysis.ipynb", f"--allow-errors --output-dir '{self.directory}' {names}")
        self.assertIn(names, block)
        ended = run(block, self.directory)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        corpus.check(self, self.directory)

    def test_a_wrong_key_is_refused(self):
        nbformat.write(nbformat.v4.new_notebook(cells=[]), os.path.join(self.directory, "analysis.ipynb"))
        ended = run(gateway_block().replace("$BELLJAR_API_KEY", "bj_wrong_key"), self.directory)
        self.assertNotEqual(ended.returncode, 0)
        self.assertIn("Authorization", ended.stderr)


class KernelClient(unittest.TestCase):
    """The client that sends `Bearer`, and its key in the query of the WebSocket."""

    def setUp(self):
        self.kernel = JupyterKernelClient(server_url=URL + "/jupyter", token=KEY)
        self.kernel.start()
        self.addCleanup(self.kernel.stop)

    def value(self, code):
        reply = self.kernel.execute(code)
        self.assertEqual(reply["status"], "ok", reply)
        return reply["outputs"][-1]["data"]["text/plain"]

    def test_cells_and_crashes(self):
        self.kernel.execute("x = 41")
        crashed = self.kernel.execute(SEGFAULT)
        self.assertEqual(crashed["status"], "error", crashed)
        self.assertEqual(self.value("x + 1"), "42")

    def test_an_interrupt_keeps_the_variables(self):
        self.kernel.execute("x = 1")

        def interrupt():
            time.sleep(1)
            self.kernel.interrupt()

        thread = threading.Thread(target=interrupt)
        thread.start()
        reply = self.kernel.execute("import time\ntime.sleep(600)")
        thread.join()
        self.assertEqual(reply["status"], "error", reply)
        self.assertEqual(self.value("x"), "1")


if __name__ == "__main__":
    unittest.main()
