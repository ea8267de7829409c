"""What the steward finds in its container: who it is, what it may do, and what is used.

The host compares it with what it asked the engine for. So things are tried where that is possible:
an engine or a runtime may say yes and do nothing.
"""

from belljar_guest import BUILTINS as __builtins__

import os
import sys

_MOUNTS = ("/workspace", "/tmp", "/opt/belljar")
_CGROUPS = "/sys/fs/cgroup"
_PR_GET_NO_NEW_PRIVS = 39
# Version 1 has a number for "none", which depends on the size of pages.
_NO_LIMIT = 1 << 60
# By what is counted or limited: its file in version 2, controller and file in version 1.
_FILES = {
    "memory": ("memory.current", "memory", "memory.usage_in_bytes"),
    "cpu": ("cpu.stat", "cpuacct", "cpuacct.usage"),
    "tasks": ("pids.current", "pids", "pids.current"),
    "kills": ("memory.events", "memory", "memory.oom_control"),
    "memory limit": ("memory.max", "memory", "memory.limit_in_bytes"),
    "tasks limit": ("pids.max", "pids", "pids.max"),
    "cpu limit": ("cpu.max", "cpu", "cpu.cfs_quota_us"),
    "cpu period": (None, "cpu", "cpu.cfs_period_us"),
    "memory stat": ("memory.stat", "memory", "memory.stat"),
}


def attest(modules):
    """The facts; with a list of modules also the packages that are installed, and which of the modules."""
    status = _status()
    system = os.uname()
    facts = {
        "python": list(sys.version_info[:3]),
        "implementation": sys.implementation.name,
        "executable": sys.executable,
        "machine": system.machine,
        "kernel": system.release,
        "uid": os.getuid(),
        "capabilities": int(status.get("CapEff", "0"), 16),
        "bounding": int(status.get("CapBnd", "0"), 16),
        "no_new_privileges": _has_no_new_privileges(status),
        "seccomp": int(status.get("Seccomp", "0")),
        "interfaces": _interfaces(),
        "root_writable": any(_is_writable(path) for path in ("/", "/usr")),
        "limits": _limits(),
        "mounts": _mounts(),
        "ctypes": _has_ctypes(),
    }
    if modules is not None:
        facts["packages"] = _packages()
        facts["modules"] = [name for name in modules if _is_installed(name)]
    return facts


class Counts:
    """What the container uses, from its cgroup."""

    def __init__(self):
        self._files = {}
        for name in ("memory", "cpu", "tasks", "kills"):
            path, _ = _find(name)
            if path is not None:
                self._files[name] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def now(self):
        cpu = self._read("cpu")
        if "usage_usec" in cpu:
            cpu_us = _field(cpu, "usage_usec")
        else:
            cpu_us = int(cpu or 0) // 1000
        return {
            "memory": int(self._read("memory") or 0),
            "cpu_us": cpu_us,
            "tasks": int(self._read("tasks") or 0),
            "memory_kills": _field(self._read("kills"), "oom_kill"),
        }

    def _read(self, name):
        try:
            return os.pread(self._files[name], 4096, 0).decode().strip() if name in self._files else ""
        except OSError:
            return ""


class Room:
    """How much memory is left in the container."""

    def __init__(self):
        self._limit = _limits()["memory"]
        self._used, _ = _find("memory")
        self._stat, version = _find("memory stat")
        self._files = ("inactive_file", "active_file")  # pages of files on disk are let go where memory is short
        if version == 1:
            self._files = tuple("total_" + name for name in self._files)

    def has(self, size):
        """Whether so many bytes more can be used without the kernel ending a process for it."""
        if None in (self._limit, self._used, self._stat):
            return True
        with open(self._used) as file:
            over = int(file.read()) + size - self._limit
        if over <= 0:
            return True
        with open(self._stat) as file:
            text = file.read()
        return over <= sum(_field(text, name) for name in self._files)


def _field(text, name):
    """A number of a file with a name and a number on each line."""
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    return 0


def _find(name):
    """The file's path, and the version of cgroups that it is of. None where there is none."""
    second, controller, first = _FILES[name]
    own = {}  # by controller, "" for version 2
    try:
        with open("/proc/self/cgroup") as file:
            for line in file:
                _, controllers, path = line.rstrip("\n").split(":", 2)
                for each in controllers.split(","):
                    own[each] = path.rstrip("/")
    except OSError:
        pass
    # As the engine mounts them, the container's own is mostly the root of what is seen.
    for version, base, path, file in (
        (2, _CGROUPS, own.get("", ""), second),
        (1, f"{_CGROUPS}/{controller}", own.get(controller, ""), first),
    ):
        for directory in (base + path, base):
            if file is not None and os.path.exists(f"{directory}/{file}"):
                return f"{directory}/{file}", version
    return None, 0


def _limit(name):
    """The fields of the file; none where there is none."""
    path, version = _find(name)
    if path is None:
        return [], version
    with open(path) as file:
        return file.read().split(), version


def _limits():
    found = {"memory": None, "processes": None, "milli_cpus": None}
    for key, name in (("memory", "memory limit"), ("processes", "tasks limit")):
        fields, _ = _limit(name)
        if fields and fields[0] != "max" and int(fields[0]) < _NO_LIMIT:
            found[key] = int(fields[0])
    fields, version = _limit("cpu limit")
    if version == 1:
        fields += _limit("cpu period")[0]
    if len(fields) == 2 and fields[0] != "max" and int(fields[0]) > 0:
        found["milli_cpus"] = int(fields[0]) * 1000 // int(fields[1])
    return found


def _status():
    with open("/proc/self/status") as file:
        lines = (line.partition(":") for line in file)
        return {name: value.strip() for name, _, value in lines}


def _has_no_new_privileges(status):
    if "NoNewPrivs" in status:
        return status["NoNewPrivs"] == "1"
    try:
        import ctypes

        return ctypes.CDLL(None).prctl(_PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1  # gVisor says it here only
    except Exception:
        return False


def _interfaces():
    with open("/proc/net/dev") as file:
        return [line.partition(":")[0].strip() for line in file if ":" in line]


def _is_writable(directory):
    path = os.path.join(directory, ".belljar-" + os.urandom(8).hex())
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except OSError:
        return False
    os.unlink(path)
    return True


def _mounts():
    """By path: the kind of file system that is mounted there, and its size; those that are no mount are left out."""
    found = {}
    with open("/proc/self/mounts") as file:
        for line in file:
            _, path, kind, *_ = line.split(" ")
            if path in _MOUNTS:
                size = os.statvfs(path)
                found[path] = {"type": kind, "bytes": size.f_blocks * size.f_frsize}
    return found


def _has_ctypes():
    try:
        import ctypes

        ctypes.CDLL(None)
        return True
    except Exception:
        return False


def _packages():
    from importlib.metadata import distributions

    found = {}
    for distribution in distributions():
        try:
            name, version = distribution.metadata["Name"], distribution.version
            if name and version:
                found.setdefault(name, version)  # the first on sys.path is the one imported
        except Exception:
            continue  # a broken package is as good as none
    return sorted(found.items())


def _is_installed(module):
    from importlib.util import find_spec

    try:
        # Only the first name: looking for a submodule would import its parent.
        return find_spec(module.partition(".")[0]) is not None
    except Exception:
        return False
