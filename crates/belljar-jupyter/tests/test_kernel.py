"""The kernel with Jupyter's own clients: the conformance suite, crashes, interrupts, questions, files, notebooks.

Run by .ci/jupyter, which installs the clients and the kernels `belljar` and `belljar-rw`.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import unittest
from queue import Empty

import corpus
import jupyter_kernel_test
import nbformat
from jupyter_client.manager import KernelManager

SEGFAULT = "import ctypes; ctypes.string_at(0)"
SECONDS = 60
with open(sys.prefix + "/share/jupyter/kernels/belljar/kernel.json") as specification:
    PROGRAM = json.load(specification)["argv"][0]


def contents(path):
    with open(path) as file:
        return file.read()


class Conformance(jupyter_kernel_test.KernelTests):
    kernel_name = "belljar"
    language_name = "python"
    file_extension = ".py"
    code_hello_world = "print('hello, world')"
    code_stderr = "import sys; print('test', file=sys.stderr)"
    completion_samples = [{"text": "zi", "matches": {"zip"}}, {"text": "import collect", "matches": {"collections"}}]
    complete_code_samples = ["1", "print('hello, world')", "def f(x):\n  return x*2\n\n\n", "%timeit 1"]
    incomplete_code_samples = ["print('''hello", "def f(x):\n  x*2"]
    invalid_code_samples = ["import = 7q"]
    code_generate_error = "raise ValueError('wrong')"
    code_execute_result = [
        {"code": "1+2+3", "result": "6"},
        {"code": "[n*n for n in range(1, 4)]", "result": "[1, 4, 9]"},
    ]
    code_display_data = [
        {"code": "import matplotlib.pyplot as plt; _ = plt.plot([1, 2]); plt.show()", "mime": "image/png"},
        {"code": "display({'text/html': '<b>x</b>'}, raw=True)", "mime": "text/html"},
    ]
    code_history_pattern = "1?2*"
    supported_history_operations = ("tail", "range", "search")
    code_inspect_sample = "zip"
    test_pager = None  # `zip?` prints: a session has no pager
    code_clear_output = "get_ipython().display_pub.clear_output()"


class Welcome(jupyter_kernel_test.IopubWelcomeTests):
    kernel_name = "belljar"
    support_iopub_welcome = True


class Kernel(unittest.TestCase):
    """A kernel of its own for each test, in a directory with a file."""

    kernel_name = "belljar"
    transport = "tcp"

    def setUp(self):
        self.directory = os.path.join(os.environ["BELLJAR_TEST_DIRECTORY"], self.id().rsplit(".", 1)[1])
        os.mkdir(self.directory)
        with open(os.path.join(self.directory, "data.csv"), "w") as file:
            file.write("a,b\n1,2\n")
        if os.geteuid() == 0:
            # A directory of root is never writable.
            for path in [self.directory, file.name]:
                os.chown(path, 1000, 1000)
        # The paths of local sockets begin with that of the connection file.
        self.manager = KernelManager(
            kernel_name=self.kernel_name, transport=self.transport, connection_file=self.directory + ".json"
        )
        self.manager.start_kernel(cwd=self.directory)
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=SECONDS)

    def tearDown(self):
        self.client.stop_channels()
        if self.manager.has_kernel:
            self.manager.shutdown_kernel(now=True)

    def run_cell(self, code, **options):
        """The reply, and the messages on iopub, by type."""
        return self.collect(self.client.execute(code, **options))

    def collect(self, request):
        reply = self.client.get_shell_msg(timeout=SECONDS)
        self.assertEqual(reply["parent_header"]["msg_id"], request)
        seen = []
        while True:
            message = self.client.get_iopub_msg(timeout=SECONDS)
            if message["parent_header"].get("msg_id") != request:
                continue
            content = message["content"]
            seen.append((message["msg_type"], content.get("execution_state") or content.get("text") or content))
            if seen[-1] == ("status", "idle"):
                return reply["content"], seen

    def text(self, seen, name):
        return "".join(str(content) for kind, content in seen if kind == name)

    def sleep(self):
        """Begins a cell that runs until it is interrupted."""
        request = self.client.execute("print('begun', flush=True)\nimport time\ntime.sleep(600)")
        while self.client.get_iopub_msg(timeout=SECONDS)["msg_type"] != "stream":
            pass
        return request

    def value(self, code):
        reply, seen = self.run_cell(code)
        self.assertEqual(reply["status"], "ok", seen)
        return dict(seen)["execute_result"]["data"]["text/plain"]


class Cells(Kernel):
    def test_order_of_messages(self):
        _, seen = self.run_cell("print(1)\n2")
        kinds = [kind for kind, _ in seen]
        self.assertEqual(kinds, ["status", "execute_input", "stream", "execute_result", "status"])
        self.assertEqual(dict(seen[1:2])["execute_input"]["execution_count"], 1)

    def test_a_crash_keeps_the_variables(self):
        self.run_cell("x = 41")
        reply, seen = self.run_cell(SEGFAULT)
        self.assertEqual((reply["status"], reply["ename"], reply["evalue"]), ("error", "Crashed", "SIGSEGV"))
        kinds = [kind for kind, _ in seen]
        self.assertLess(kinds.index("error"), kinds.index("stream"))
        self.assertTrue(self.text(seen, "stream").startswith("[belljar] "), seen)
        self.assertNotIn(("status", "restarting"), seen)
        self.assertEqual(self.value("x + 1"), "42")

    def test_an_interrupt_keeps_the_variables(self):
        self.run_cell("x = 1")
        request = self.sleep()
        self.manager.interrupt_kernel()
        reply, _ = self.collect(request)
        self.assertEqual((reply["status"], reply["ename"]), ("error", "KeyboardInterrupt"))
        self.assertEqual(self.value("x"), "1")

    def test_a_signal_interrupts_too(self):
        request = self.sleep()
        self.manager.signal_kernel(signal.SIGINT)
        self.assertEqual(self.collect(request)[0]["ename"], "KeyboardInterrupt")

    def test_input_and_getpass_ask(self):
        code = "import getpass\nprint(input('name? ') + getpass.getpass('key? '))"
        request = self.client.execute(code, allow_stdin=True)
        for prompt, password, answer in [("name? ", False, "bell"), ("key? ", True, "jar")]:
            question = self.client.get_stdin_msg(timeout=SECONDS)
            self.assertEqual(question["content"], {"prompt": prompt, "password": password})
            self.assertEqual(question["parent_header"]["msg_id"], request)
            self.client.input(answer)
        reply, seen = self.collect(request)
        self.assertEqual(reply["status"], "ok")
        self.assertEqual(self.text(seen, "stream"), "belljar\n")
        reply, _ = self.run_cell("input()", allow_stdin=False)
        self.assertEqual(reply["ename"], "EOFError")

    def test_an_open_question_is_interrupted(self):
        request = self.client.execute("input()", allow_stdin=True)
        self.client.get_stdin_msg(timeout=SECONDS)
        self.manager.interrupt_kernel()
        self.assertEqual(self.collect(request)[0]["ename"], "KeyboardInterrupt")

    def test_an_error_aborts_what_waits(self):
        first = self.client.execute("import time; time.sleep(1); 1/0")
        second = self.client.execute("x = 1")
        third = self.client.execute("x", stop_on_error=False)
        self.assertEqual(self.collect(first)[0]["ename"], "ZeroDivisionError")
        self.assertEqual(self.collect(second)[0]["status"], "aborted")
        self.assertEqual(self.collect(third)[0]["status"], "aborted")
        self.assertEqual(self.value("2"), "2")

    def test_without_stop_on_error_the_next_runs(self):
        first = self.client.execute("import time; time.sleep(1); 1/0", stop_on_error=False)
        second = self.client.execute("3")
        self.assertEqual(self.collect(first)[0]["status"], "error")
        self.assertEqual(self.collect(second)[0]["status"], "ok")

    def test_silent_and_unstored_cells(self):
        reply, seen = self.run_cell("y = 5; print(y); y", silent=True)
        self.assertEqual([kind for kind, _ in seen], ["status", "status"])
        self.assertEqual(reply["execution_count"], 0)
        reply, seen = self.run_cell("y", store_history=False)
        self.assertEqual(reply["execution_count"], 0)
        self.assertIn("execute_result", dict(seen))
        self.assertEqual(self.run_cell("y")[0]["execution_count"], 1)
        reply, _ = self.run_cell("y", user_expressions={"a": "1"})
        self.assertEqual(reply["user_expressions"], {})

    def test_positions_are_characters(self):
        code = "数据 = 'é'; 数据.upp"
        self.run_cell("数据 = 'é'")
        self.client.complete(code)
        content = self.client.get_shell_msg(timeout=SECONDS)["content"]
        start, end = content["cursor_start"], content["cursor_end"]
        self.assertEqual(end, len(code))
        whole = {code[:start] + match for match in content["matches"]}
        self.assertTrue(any(one.endswith("数据.upper") for one in whole), content)
        self.client.inspect("数据.upper", 4, detail_level=1)
        self.assertTrue(self.client.get_shell_msg(timeout=SECONDS)["content"]["found"])

    def test_tracebacks_name_the_prompt(self):
        self.run_cell("def f():\n    1/0")
        reply, _ = self.run_cell("f()")
        told = "\n".join(reply["traceback"])
        self.assertIn('"In [1]", line 2', told)
        self.assertIn('"In [2]", line 1', told)

    def test_displays_change(self):
        _, seen = self.run_cell("h = display('a', display_id='one')\nh.update('b')")
        kinds = [kind for kind, _ in seen]
        self.assertIn("display_data", kinds)
        self.assertIn("update_display_data", kinds)
        self.assertEqual(dict(seen)["update_display_data"]["transient"], {"display_id": "one"})

    def test_a_comm_is_closed(self):
        message = self.client.session.msg("comm_open", {"comm_id": "c", "target_name": "jupyter.widget", "data": {}})
        self.client.shell_channel.send(message)
        while True:
            seen = self.client.get_iopub_msg(timeout=SECONDS)
            if seen["msg_type"] == "comm_close":
                break
        self.assertEqual(seen["content"]["comm_id"], "c")
        self.client.comm_info()
        self.assertEqual(self.client.get_shell_msg(timeout=SECONDS)["content"]["comms"], {})

    def test_files_beside_the_notebook(self):
        reply, seen = self.run_cell("print(open('data.csv').read(), end='')")
        self.assertEqual(self.text(seen, "stream"), "a,b\n1,2\n")
        reply, _ = self.run_cell("open('data.csv', 'a')")
        self.assertEqual(reply["ename"], "OSError")
        self.assertIn("Read-only file system", reply["evalue"])
        _, seen = self.run_cell("_ = open('new.csv', 'w').write('x')")
        self.assertIn("[belljar] New files are in the session's memory", self.text(seen, "stream"))
        _, seen = self.run_cell("_ = open('new2.csv', 'w').write(open('new.csv').read())")
        self.assertEqual(self.text(seen, "stream"), "")
        self.assertEqual(sorted(os.listdir(self.directory)), ["data.csv"])

    def test_packages_by_policy(self):
        reply, _ = self.run_cell("%pip install humanize")
        self.assertEqual(reply["status"], "error")
        self.assertIn("humanize", reply["evalue"])
        self.assertEqual(self.value("1"), "1")

    def test_shutdown_and_restart(self):
        self.run_cell("x = 1")
        self.manager.restart_kernel()
        self.client.wait_for_ready(timeout=SECONDS)
        self.assertEqual(self.run_cell("x")[0]["ename"], "NameError")
        process = self.manager.provisioner.process
        self.manager.shutdown_kernel()
        self.assertEqual(process.returncode, 0)

    def test_wrong_signatures_and_strangers(self):
        info = self.manager.get_connection_info()
        right = self.client.session.key
        self.client.session.key = b"wrong"
        self.client.execute("open('stolen', 'w')")
        self.client.session.key = right
        with self.assertRaises(Empty):
            self.client.get_shell_msg(timeout=1)
        # A peer without the key that announces more than there is memory, one that speaks something else, and many.
        greeting = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
        ready = b"\x04\x1c\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER"
        huge = b"\x02" + (1 << 62).to_bytes(8, "big")
        strangers = []
        for said in [b"GET / HTTP/1.1\r\n\r\n", greeting + ready + huge, greeting + b"\x06" + huge[1:], b"\xff"] * 40:
            stranger = socket.create_connection((info["ip"], info["shell_port"]))
            strangers.append(stranger)
            try:
                stranger.sendall(said)
            except OSError:
                pass
        self.assertEqual(self.value("6 * 7"), "42")
        for stranger in strangers:
            stranger.close()

    def test_the_end_of_jupyter_is_that_of_the_kernel(self):
        code = (
            "from jupyter_client.manager import start_new_kernel\n"
            f"km, kc = start_new_kernel(kernel_name={self.kernel_name!r})\n"
            "print(km.provisioner.pid, flush=True)\nimport os\nos.kill(os.getpid(), 9)\n"
        )
        started = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=self.directory)
        pid = int(started.stdout)
        end = time.monotonic() + SECONDS
        while os.path.exists(f"/proc/{pid}") and contents(f"/proc/{pid}/stat").split()[2] != "Z":
            self.assertLess(time.monotonic(), end)
            time.sleep(0.1)


class Ipc(Kernel):
    """Over local sockets."""

    transport = "ipc"

    def test_cells_questions_and_interrupts(self):
        self.assertEqual(self.value("6 * 7"), "42")
        request = self.client.execute("input()", allow_stdin=True)
        self.client.get_stdin_msg(timeout=SECONDS)
        self.manager.interrupt_kernel()
        self.assertEqual(self.collect(request)[0]["ename"], "KeyboardInterrupt")
        self.assertTrue(self.client.hb_channel.is_beating())


class Home(Kernel):
    """A notebook in the home directory."""

    def setUp(self):
        home = os.environ["HOME"]
        self.addCleanup(os.environ.__setitem__, "HOME", home)
        os.environ["HOME"] = os.path.join(os.environ["BELLJAR_TEST_DIRECTORY"], self.id().rsplit(".", 1)[1])
        super().setUp()

    def test_the_home_directory_is_not_shown(self):
        reply, seen = self.run_cell("open('data.csv')")
        self.assertEqual(reply["ename"], "FileNotFoundError")
        self.assertIn("contains your home directory", self.text(seen, "stream"))
        self.assertEqual(self.text(self.run_cell("1")[1], "stream"), "")
        self.assertEqual(self.value("__import__('os').path.exists('/data/notebook')"), "False")


class Lost(Kernel):
    """Without walls there are no checkpoints: a crash loses everything, and the kernel lives."""

    kernel_name = "belljar-open"

    def test_a_crash_loses_all_and_the_kernel_lives(self):
        self.run_cell("x = 1")
        _, seen = self.run_cell(SEGFAULT)
        self.assertIn(("status", "restarting"), seen)
        self.assertIn("[belljar] The session was lost", self.text(seen, "stream"))
        self.assertEqual(self.run_cell("x")[0]["ename"], "NameError")
        self.assertEqual(self.value("1"), "1")


class Writable(Kernel):
    """With `--files rw`."""

    kernel_name = "belljar-rw"

    def test_files_are_written_beside_the_notebook(self):
        _, seen = self.run_cell("_ = open('new.csv', 'w').write(open('data.csv').read())")
        self.assertEqual(self.text(seen, "stream"), "")
        self.assertEqual(contents(os.path.join(self.directory, "new.csv")), "a,b\n1,2\n")


class Start(unittest.TestCase):
    def test_errors_of_the_start_are_in_the_log(self):
        """A missing environment is reported in plain words, on the stream that Jupyter logs."""
        connection = {"transport": "ipc", "ip": os.environ["BELLJAR_TEST_DIRECTORY"] + "/start", "key": "k"}
        for port, name in enumerate(["shell_port", "control_port", "iopub_port", "stdin_port", "hb_port"], 1):
            connection[name] = port
        path = os.environ["BELLJAR_TEST_DIRECTORY"] + "/connection.json"
        with open(path, "w") as file:
            json.dump(connection, file)
        ended = subprocess.run([PROGRAM, "kernel", "run", "--env", "nothere", "-f", path], capture_output=True, text=True)
        self.assertEqual(ended.returncode, 2)
        self.assertIn("nothere", ended.stderr)
        self.assertIn("belljar env create", ended.stderr)

    def test_wrong_options_are_refused_at_installation(self):
        prefix = os.environ["BELLJAR_TEST_DIRECTORY"] + "/prefix"
        for options in [["--", "--memory", "lots"], ["--", "--env", "nothere"], ["--name", "../x"]]:
            ended = subprocess.run(
                [PROGRAM, "kernel", "install", "--prefix", prefix, *options], capture_output=True, text=True
            )
            self.assertEqual(ended.returncode, 2, ended)
        self.assertFalse(os.path.exists(prefix))


class Page(unittest.TestCase):
    def test_the_examples_of_the_page_run(self):
        """docs/jupyter.md, as a newcomer would run it beside a notebook."""
        page = contents(os.path.join(os.path.dirname(__file__), "../../../docs/jupyter.md"))
        blocks = [part.split("```")[0] for part in page.split("```sh\n")[1:]]
        self.assertGreaterEqual(len(blocks), 2)
        directory = os.path.join(os.environ["BELLJAR_TEST_DIRECTORY"], "page")
        os.mkdir(directory)
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("print(open('data.csv').read())")])
        nbformat.write(notebook, os.path.join(directory, "analysis.ipynb"))
        with open(os.path.join(directory, "data.csv"), "w") as file:
            file.write("a,b\n")
        path = os.pathsep.join([os.path.dirname(PROGRAM), os.path.dirname(sys.executable), os.environ["PATH"]])
        for block in blocks:
            ended = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", block], cwd=directory, env={**os.environ, "PATH": path},
                capture_output=True, text=True,
            )
            self.assertEqual(ended.returncode, 0, ended)
        executed = nbformat.read(os.path.join(directory, "analysis.ipynb"), as_version=4)
        # On a busy machine the two lines come one after the other.
        self.assertEqual("".join(output.text for output in executed.cells[0].outputs), "a,b\n\n")


class Notebooks(unittest.TestCase):
    def test_the_corpus_runs(self):
        """nbconvert executes the 12 notebooks."""
        results = os.path.join(os.environ["BELLJAR_TEST_DIRECTORY"], "results")
        command = [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "--allow-errors"]
        command += ["--ExecutePreprocessor.kernel_name=belljar-notebooks", "--output-dir", results, *corpus.PATHS]
        converted = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(converted.returncode, 0, converted.stderr)
        corpus.check(self, results)


if __name__ == "__main__":
    unittest.main()
