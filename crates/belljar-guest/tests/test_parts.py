"""Parts of the steward that need no container: the order of the wires, and what is read of cgroups."""

import os
import pathlib
import random
import select
import signal
import sys
import tempfile
import unittest

HOME = pathlib.Path(__file__).parent.parent / "python"
sys.path.insert(0, str(HOME))
sys.dont_write_bytecode = True

from belljar_guest import container, relay  # noqa: E402


class WireTests(unittest.TestCase):
    def test_a_report_never_comes_before_what_was_printed(self):
        """A child prints, says so on control, and prints again at once; windows are as they come."""
        rounds, chance = 3000, random.Random(29)
        sent = []
        started = []
        wires, fds = relay.Wires.make(lambda header, blob=b"": sent.append((header, blob)), lambda: started.append(1))
        child = os.fork()
        if child == 0:
            try:
                control, _, stdout, stderr = fds
                for number in range(rounds):
                    os.write(stdout, b"o" * (number % 700))
                    os.write(stderr, b"e" * (number % 5))
                    os.write(control, number.to_bytes(4, "little"))
            finally:
                os._exit(0)
        self.addCleanup(os.waitpid, child, 0)
        self.addCleanup(os.kill, child, signal.SIGKILL)
        for fd in fds:
            os.close(fd)
        seen = {"stdout": 0, "stderr": 0, "control": b""}
        wanted_out = wanted_err = reports = 0
        wires.window = 100
        while True:
            interests = {}
            wires.add_interests(interests)
            poll = select.poll()
            for fd, events in interests.items():
                poll.register(fd, events)
            wires.move(dict(poll.poll(1000)) if interests else {})
            for header, blob in sent:
                if header["type"] != "control":
                    seen[header["type"]] += len(blob)
                    continue
                seen["control"] += blob
                while reports < len(seen["control"]) // 4:
                    wanted_out += reports % 700
                    wanted_err += reports % 5
                    reports += 1
                    self.assertGreaterEqual(seen["stdout"], wanted_out, reports)
                    self.assertGreaterEqual(seen["stderr"], wanted_err, reports)
            ended = ({"type": "control"}, b"") in sent
            sent.clear()
            if ended:
                break
            if not wires.window:
                wires.window += chance.choice((1, 3, 100, 70_000))
        self.assertEqual((reports, len(started) > 0), (rounds, True))

    def test_what_comes_while_the_pipes_are_emptied(self):
        sent = []

        def send(header, blob=b""):
            sent.append((header["type"], bytes(blob)))
            if len(sent) == 1:
                # The session is as fast as this.
                os.write(stdout, b"second")
                os.write(control, b"2")

        wires, fds = relay.Wires.make(send, lambda: None)
        control, _, stdout, _ = fds
        os.write(stdout, b"first")
        os.write(control, b"1")
        for _ in range(3):
            interests = {}
            wires.add_interests(interests)
            wires.move(dict.fromkeys(interests, select.POLLIN))
        wanted = [("stdout", b"first"), ("control", b"1"), ("stdout", b"second"), ("control", b"2")]
        self.assertEqual(sent, wanted)
        for fd in fds:
            os.close(fd)

    def test_nobody_reads_what_is_given(self):
        sent = []
        wires, fds = relay.Wires.make(lambda header, blob=b"": sent.append((header, blob)), lambda: None)
        wires.give(bytes(1 << 20))
        taken = sum(header["bytes"] for header, _ in sent)
        self.assertLess(taken, 1 << 20)
        for number in range(100_000):
            wires.interrupt(number)  # more than the pipe takes
        for fd in fds:
            os.close(fd)
        wires.interrupt(1)
        while ({"type": "control"}, b"") not in sent:
            interests = {}
            wires.add_interests(interests)
            wires.move(dict.fromkeys(interests, select.POLLIN | select.POLLOUT))
        self.assertEqual(sum(header.get("bytes", 0) for header, _ in sent), 1 << 20)


class CgroupTests(unittest.TestCase):
    """Both versions, whichever this machine has."""

    def files(self, contents):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        for name, text in contents.items():
            path = pathlib.Path(directory.name) / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        before, container._CGROUPS = container._CGROUPS, directory.name
        self.addCleanup(setattr, container, "_CGROUPS", before)

    def test_version_2(self):
        self.files(
            {
                "memory.current": "1000\n",
                "memory.max": "5000\n",
                "memory.events": "low 0\nhigh 0\nmax 7\noom 3\noom_kill 2\noom_group_kill 0\n",
                "memory.stat": "anon 1\ninactive_file 300\nactive_file 200\n",
                "cpu.stat": "usage_usec 123\nuser_usec 100\n",
                "cpu.max": "150000 100000\n",
                "pids.current": "4\n",
                "pids.max": "43\n",
            }
        )
        self.assertEqual(container._limits(), {"memory": 5000, "processes": 43, "milli_cpus": 1500})
        self.assertEqual(container.Counts().now(), {"memory": 1000, "cpu_us": 123, "tasks": 4, "memory_kills": 2})
        room = container.Room()
        self.assertEqual([room.has(size) for size in (4000, 4500, 4501)], [True, True, False])

    def test_version_1(self):
        self.files(
            {
                "memory/memory.usage_in_bytes": "1000\n",
                "memory/memory.limit_in_bytes": "5000\n",
                "memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
                "memory/memory.stat": "inactive_file 1\ntotal_inactive_file 300\ntotal_active_file 200\n",
                "cpuacct/cpuacct.usage": "123456\n",
                "cpu/cpu.cfs_quota_us": "150000\n",
                "cpu/cpu.cfs_period_us": "100000\n",
                "pids/pids.current": "4\n",
                "pids/pids.max": "43\n",
            }
        )
        self.assertEqual(container._limits(), {"memory": 5000, "processes": 43, "milli_cpus": 1500})
        self.assertEqual(container.Counts().now(), {"memory": 1000, "cpu_us": 123, "tasks": 4, "memory_kills": 2})
        room = container.Room()
        self.assertEqual([room.has(size) for size in (4000, 4500, 4501)], [True, True, False])

    def test_no_limits(self):
        none = {"memory": None, "processes": None, "milli_cpus": None}
        self.files({"memory.max": "max\n", "pids.max": "max\n", "cpu.max": "max 100000\n", "memory.current": "1\n"})
        self.assertEqual(container._limits(), none)
        self.assertTrue(container.Room().has(1 << 60))
        first = {"memory/memory.limit_in_bytes": "9223372036854771712\n", "cpu/cpu.cfs_quota_us": "-1\n"}
        self.files({**first, "cpu/cpu.cfs_period_us": "100000\n", "pids/pids.max": "max\n"})
        self.assertEqual(container._limits(), none)
        self.files({})
        self.assertEqual(container._limits(), none)
        self.assertEqual(container.Counts().now(), {"memory": 0, "cpu_us": 0, "tasks": 0, "memory_kills": 0})


if __name__ == "__main__":
    unittest.main()
