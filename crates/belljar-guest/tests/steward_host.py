"""A small host for the steward: starts containers over an engine's HTTP interface and speaks with what is in them.

Standard library only. The real host is Rust; this one is for tests of the guest alone.
"""

import errno
import http.client
import json
import os
import pathlib
import platform
import socket
import struct
import threading
import time

PACKAGE = pathlib.Path(__file__).parent.parent / "python" / "belljar_guest"
BOOT = """
import json, os, struct, sys
def read(size):
    data = bytearray()
    while len(data) < size:
        data += os.read(0, min(size - len(data), 65536)) or os._exit(0)
    return bytes(data)
head, blob = struct.unpack("<II", read(8))
for name, size in json.loads(read(head))["files"]:
    path = os.path.join("/opt/belljar", name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(read(size))
sys.path.insert(0, "/opt/belljar")
from belljar_guest.steward import main
main()
"""
ENVIRONMENT = [
    "PATH=/usr/local/bin:/usr/bin:/bin",
    "HOME=/tmp",
    "TMPDIR=/tmp",
    "LANG=C.UTF-8",
    "LC_ALL=C.UTF-8",
    "PYTHONDONTWRITEBYTECODE=1",
    "MPLBACKEND=module://belljar_guest.plots",
    "OMP_NUM_THREADS=1",
    "OPENBLAS_NUM_THREADS=1",
    "MKL_NUM_THREADS=1",
    "OPENBLAS_THREAD_TIMEOUT=20",
]
# Those that Docker masks itself: a list of ours replaces it.
MASKED = [
    *("/proc/asound", "/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list"),
    *("/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware", "/proc/cmdline", "/proc/interrupts"),
    *("/proc/kallsyms", "/proc/key-users", "/proc/sys/kernel/random/boot_id", "/sys/class", "/sys/devices"),
    *("/sys/kernel", "/sys/module", "/sys/bus", "/sys/block"),
]
CAPABILITIES = ["SETUID", "SETGID", "SETPCAP", "KILL", "CHOWN"]
LIMITS = {"core": 1, "signals": None, "open_files": 1024, "file_size": 1 << 30, "data": None, "processes": None}
MIB = 1 << 20


def filter_program():
    """A filter of system calls in the form that the host sends: `unshare` is refused, everything else allowed."""
    architecture, unshare = {"x86_64": (0xC000003E, 272), "aarch64": (0xC00000B7, 97)}[platform.machine()]
    steps = [
        (0x20, 0, 0, 4),  # the architecture
        (0x15, 1, 0, architecture),
        (0x06, 0, 0, 0x80000000),  # another: the process ends
        (0x20, 0, 0, 0),  # the number of the call
        (0x15, 0, 1, unshare),
        (0x06, 0, 0, 0x00050000 | errno.EPERM),
        (0x06, 0, 0, 0x7FFF0000),
    ]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


class Connection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path, timeout=60):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Engine:
    """A Docker daemon or a Podman service, by its address, and which runtime containers have."""

    def __init__(self, address, image, kind, runtime=None):
        self.path = address.removeprefix("unix://")
        self.image = image
        self.kind = kind  # "docker" or "podman"
        self.runtime = runtime

    def call(self, method, path, body=None):
        connection = Connection(self.path)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, "/v1.41" + path, data, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        if answer.status >= 400:
            raise RuntimeError(f"{method} {path}: {answer.status} {text.decode()}")
        return json.loads(text) if text.strip() else None

    def create(self, memory=512 * MIB, processes=64, workspace=128 * MIB, cpus=1):
        # gVisor and Podman don't know the option.
        inodes = "" if self.runtime == "runsc" or self.kind == "podman" else ",nr_inodes=20000"
        inodes += ",notmpcopyup" if self.kind == "podman" else ""
        host = {
            "NetworkMode": "none",
            "Dns": ["127.0.0.1"],
            "CgroupnsMode": "private",
            "IpcMode": "private",
            "AutoRemove": True,
            "Memory": memory,
            "MemorySwap": memory,
            "NanoCpus": cpus * 10**9,
            "PidsLimit": processes + 3,
            "ReadonlyRootfs": True,
            "ShmSize": 16 * MIB,
            "LogConfig": {"Type": "none"},
            "Tmpfs": {
                "/workspace": f"size={workspace}{inodes},mode=0755",
                "/tmp": f"size={64 * MIB}{inodes},mode=1777",
                "/opt/belljar": "size=4m,mode=0755",
            },
            "CapDrop": ["ALL"],
            "CapAdd": CAPABILITIES,
            "SecurityOpt": ["no-new-privileges"],
            "Ulimits": [
                {"Name": "nofile", "Soft": 1024, "Hard": 4096},
                {"Name": "core", "Soft": 1, "Hard": 1},
            ],
            "MaskedPaths": MASKED,
        }
        if self.kind == "podman":
            # Its own is above what a service without CAP_SYS_RESOURCE may set.
            host["Ulimits"].append({"Name": "nproc", "Soft": 4096, "Hard": 4096})
        if self.runtime is not None:
            host["Runtime"] = self.runtime
        body = {
            "Image": self.image,
            "Cmd": ["/usr/bin/python3", "-I", "-c", BOOT],
            "Hostname": "belljar",
            "User": "0",
            "Env": ENVIRONMENT,
            "Labels": {"belljar.test": "steward"},
            "OpenStdin": True,
            "StdinOnce": True,
            "AttachStdin": True,
            "AttachStdout": True,
            "AttachStderr": True,
            "Tty": False,
            "HostConfig": host,
        }
        return self.call("POST", "/containers/create", body)["Id"]

    def attach(self, container):
        """The stream, and what came with the answer to the request for it."""
        stream = socket.socket(socket.AF_UNIX)
        stream.connect(self.path)
        path = f"/v1.41/containers/{container}/attach?stream=1&stdin=1&stdout=1&stderr=1"
        stream.sendall(
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
            "Content-Length: 0\r\n\r\n".encode()
        )
        answer = b""
        while b"\r\n\r\n" not in answer:
            data = stream.recv(4096)
            if not data:
                raise RuntimeError(f"attach: {answer!r}")
            answer += data
        head, _, rest = answer.partition(b"\r\n\r\n")
        if head.split()[1] not in (b"101", b"200"):
            raise RuntimeError(f"attach: {answer.decode()}")
        return stream, rest

    def kill(self, container):
        self.call("POST", f"/containers/{container}/kill")

    def is_running(self, container):
        try:
            return self.call("GET", f"/containers/{container}/json")["State"]["Running"]
        except RuntimeError:
            return False


class Host:
    """The host's end of one container."""

    def __init__(self, engine, credits=True, **limits):
        self.engine = engine
        self.credits = credits  # whether each output is acknowledged at once
        self.frames = []  # of the steward: header, blob
        self.events = []  # of the session, in the order of arrival: wire, bytes or a frame's header
        self.log = b""  # the steward's stderr
        self.ended = False
        self.cell = 0
        self.identity = 0
        self._unparsed = b""
        self._control = b""
        self._changed = threading.Condition()
        self._sending = threading.Lock()
        self.begun = time.monotonic()
        self.container = engine.create(**limits)
        self.stream, rest = engine.attach(self.container)
        engine.call("POST", f"/containers/{self.container}/start")
        self._reader = threading.Thread(target=self._read, args=(rest,), daemon=True)
        self._reader.start()
        self._send_files()

    def _send_files(self):
        files = [(f"belljar_guest/{path.name}", path.read_bytes()) for path in sorted(PACKAGE.glob("*.py"))]
        program = os.environ.get("BELLJAR_TEST_SECCOMP")
        program = pathlib.Path(program).read_bytes() if program else filter_program()
        files.append(("seccomp.bpf", program))
        names = [[name, len(contents)] for name, contents in files]
        self.send({"type": "files", "files": names}, b"".join(contents for _, contents in files))

    # The stream

    def send(self, header, blob=b""):
        head = json.dumps(header).encode()
        with self._sending:
            self.stream.sendall(struct.pack("<II", len(head), len(blob)) + head + blob)

    def _read(self, data):
        try:
            while True:
                while len(data) >= 8 and len(data) >= 8 + (size := int.from_bytes(data[4:8], "big")):
                    self._take(data[0], data[8 : 8 + size])
                    data = data[8 + size :]
                more = self.stream.recv(1 << 20)
                if not more:
                    return
                data += more
        except OSError:
            pass
        finally:
            with self._changed:
                self.ended = True
                self._changed.notify_all()

    def _take(self, wire, data):
        acknowledged = 0
        with self._changed:
            if wire == 2:
                self.log += data
                return
            self._unparsed += data
            while len(self._unparsed) >= 8:
                head, blob = struct.unpack_from("<II", self._unparsed)
                if len(self._unparsed) < 8 + head + blob:
                    break
                header = json.loads(self._unparsed[8 : 8 + head])
                blob = self._unparsed[8 + head : 8 + head + blob]
                self._unparsed = self._unparsed[8 + head + len(blob) :]
                assert len(blob) <= MIB and head <= 8 * MIB, header
                if header["type"] in ("control", "stdout", "stderr"):
                    acknowledged += len(blob)
                    assert len(blob) <= 64 << 10
                    self._take_output(header["type"], blob)
                else:
                    self.frames.append((header, blob))
            self._changed.notify_all()
        if acknowledged and self.credits:
            try:
                self.send({"type": "credit", "bytes": acknowledged})
            except OSError:
                pass

    def _take_output(self, wire, blob):
        if wire != "control":
            self.events.append((wire, blob))
            return
        if not blob:
            self.events.append(("end", None))
        self._control += blob
        while len(self._control) >= 8:
            head, length = struct.unpack_from("<II", self._control)
            if len(self._control) < 8 + head + length:
                break
            self.events.append(("control", json.loads(self._control[8 : 8 + head])))
            self._control = self._control[8 + head + length :]

    def wait(self, found, seconds=30):
        """What `found()` returns once it is not none."""
        with self._changed:
            until = time.monotonic() + seconds
            while True:
                result = found()
                if result is not None:
                    return result
                left = until - time.monotonic()
                if self.ended or left <= 0:
                    why = "the stream ended" if self.ended else f"not within {seconds} s"
                    raise AssertionError(f"{why}; log: {self.log[-2000:].decode(errors='replace')}; {self.frames[-5:]}")
                self._changed.wait(left)

    def frame(self, *types, seconds=30, where=lambda header: True):
        """Takes the next frame of one of these types."""

        def found():
            for at, (header, blob) in enumerate(self.frames):
                if header["type"] in types and where(header):
                    del self.frames[at]
                    return header, blob
            return None

        return self.wait(found, seconds)

    def ask(self, header, *types, seconds=30):
        self.send(header)
        return self.frame(*types, seconds=seconds)[0]

    # The session

    def attest(self, **fields):
        return self.ask({"type": "hello", "version": 1, "silence_s": None, "modules": None, **fields}, "attest", "failed")

    def warm(self, preload=()):
        return self.ask({"type": "warm", "preload": list(preload), "fonts": []}, "warm", "failed", seconds=120)

    def start(self, checkpoints="off", uid=123456, **fields):
        request = {"uid": uid, "gid": uid, "limits": LIMITS, "checkpoints": checkpoints, "filters": True, "variables": {}}
        answer = self.ask({"type": "start", **request, **fields}, "started", "failed")
        if answer["type"] == "started":
            self.pid = answer["pid"]
            self.report("ready")
        return answer

    def ready(self, preload=(), **fields):
        self.attest()
        answer = self.warm(preload)
        assert answer["type"] == "warm" and not answer["failed"], answer
        answer = self.start(**fields)
        assert answer["type"] == "started", answer
        return self

    def control(self, header):
        head = json.dumps(header).encode()
        self.send({"type": "control"}, struct.pack("<II", len(head), 0) + head)

    def begin(self, code):
        """Sends a cell; its number."""
        self.cell += 1
        self.control({"type": "run", "cell": self.cell, "nonce": f"{self.cell:016x}", "code": code})
        return self.cell

    def report(self, kind, seconds=60, **fields):
        """The next frame of this kind on the control wire, with these fields; all before it is left in `events`."""

        def found():
            for at, (wire, header) in enumerate(self.events):
                if wire == "control" and header["type"] == kind and fields.items() <= header.items():
                    del self.events[at]
                    return header
            return None

        return self.wait(found, seconds)

    def run(self, code, seconds=60):
        return self.report("done", seconds, cell=self.begin(code))

    def value(self, code):
        """What the code prints, which must not fail."""
        self.printed()
        report = self.run(code)
        printed = self.printed()
        assert report["end"] == "ok", (report, printed)
        return printed.decode()

    def printed(self, wire="stdout"):
        """Takes what was printed and not taken yet."""
        with self._changed:
            data = b"".join(data for name, data in self.events if name == wire)
            self.events = [event for event in self.events if event[0] != wire]
            return data

    def interrupt(self, cell):
        self.send({"type": "interrupt", "cell": cell})

    # Files

    def begin_file(self, op, blob=b"", **fields):
        self.identity += 1
        self.send({"type": "file", "id": self.identity, "op": op, **fields}, blob)
        return self.identity

    def file(self, op, blob=b"", seconds=60, **fields):
        """The answer's header and blob."""
        identity = self.begin_file(op, blob, **{"root": "/workspace", **fields})
        return self.frame("file", seconds=seconds, where=lambda header: header["id"] == identity)

    def errno(self, op, **fields):
        """The name of the error, or the answer."""
        answer = self.file(op, **fields)[0]
        return errno.errorcode[answer["errno"]] if "errno" in answer else answer

    def put(self, path, data, **fields):
        """Writes a file in pieces; the error's number, or 0."""
        identities = [self.begin_file("begin", path=path, **{"root": "/workspace", **fields})]
        for at in range(0, len(data), MIB):
            identities.append(self.begin_file("data", data[at : at + MIB]))
        identities.append(self.begin_file("keep"))
        numbers = []
        for identity in identities:
            answer = self.frame("file", where=lambda header, wanted=identity: header["id"] == wanted)[0]
            numbers.append(answer.get("errno", 0))
        return next((number for number in numbers if number), 0)

    def get(self, path, **fields):
        data = b""
        while True:
            header, blob = self.file("read", path=path, offset=len(data), bytes=MIB, **fields)
            assert "errno" not in header, header
            data += blob
            if not blob or len(data) >= header["size"]:
                return data

    # The end

    def is_gone(self, seconds):
        """Whether the engine has no such container any more within this time."""
        until = time.monotonic() + seconds
        while self.engine.is_running(self.container):
            if time.monotonic() > until:
                return False
            time.sleep(0.02)
        return True

    def hang_up(self):
        try:
            self.stream.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.stream.close()

    def close(self):
        self.hang_up()
        if not self.is_gone(5):
            self.engine.kill(self.container)
