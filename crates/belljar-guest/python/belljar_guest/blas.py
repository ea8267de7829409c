"""The threads of OpenBLAS: as many as the session has CPUs.

OpenBLAS starts its threads when a product first needs them. It ends them before every fork, and
starts them again afterwards. So a session only has to be told their number, and the template warms
their buffers, since OpenBLAS ends a process that has no memory left for them.
"""

from belljar_guest import BUILTINS as __builtins__

import _thread
import ctypes
import os
import sys

_listdir = os.listdir
_count = _thread._count
_get_native_id = _thread.get_native_id
_Library = ctypes.CDLL
_int = ctypes.c_int
# Calls that keep the lock of the interpreter, so that no other Python code runs meanwhile.
_libc = ctypes.PyDLL(None)
_open, _read, _close, _usleep = _libc.open, _libc.read, _libc.close, _libc.usleep
_buffer = ctypes.create_string_buffer(512)

MOST = 16
_WAIT_MS = 200
_TASKS = "/proc/self/task"
_warmed = []


class _Pool:
    """One OpenBLAS in this process. Each package brings its own."""

    def __init__(self, path):
        library = _Library(path)
        self.running = _int.in_dll(library, "blas_server_avail")
        self.started = _int.in_dll(library, "blas_num_threads")
        self.used = _int.in_dll(library, "blas_cpu_number")
        self.end = library.blas_thread_shutdown_

    def set(self, threads):
        """While it does not run."""
        self.started.value = self.used.value = threads


def prepare(threads=None):
    """In the template: has the threads started once, and ended. As many as the host has CPUs, or as given."""
    _warmed.clear()
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return
    for pool in _pools():
        pool.end()
        pool.set(threads or min(len(os.sched_getaffinity(0)), MOST))
        _warmed.append(pool)
    square = numpy.ones((400, 400))
    square @ square
    for pool in _warmed:
        pool.end()
        pool.set(1)
    # The kernel lists a thread for a moment after its end.
    for _ in range(1000):
        if len(_listdir(_TASKS)) == 1:
            break
        _usleep(1000)


def follow():
    """In a session: the number that the host gave it."""
    threads = int(os.environ.get("OPENBLAS_NUM_THREADS", "1"))
    for pool in _warmed:
        pool.set(threads)


def workers():
    """How many threads of this process are of OpenBLAS."""
    return sum(pool.started.value - 1 for pool in _pools() if pool.running.value)


def hold():
    """Before a fork: sees to it that no thread computes in OpenBLAS with others. Returns how to
    `release` it, or None if one does not end soon.

    OpenBLAS would wait for such a thread without end, after the fork and in the copy.
    """
    if not _count():
        return ()
    before = []
    for pool in _pools():
        if pool.running.value and pool.used.value > 1:
            before.append((pool.used, pool.used.value))
            pool.used.value = 1  # what starts from now on computes alone
    if before and not _are_others_idle():
        release(before)
        return None
    return before


def release(before):
    for used, threads in before:
        used.value = threads


def _pools():
    try:
        with open("/proc/self/maps") as file:
            paths = {line.split()[-1] for line in file if "openblas" in line}
        return [_Pool(path) for path in sorted(paths)]
    except (OSError, ValueError, AttributeError):
        return []  # a build with other names: it has one thread


def _are_others_idle():
    """Whether all other threads come to wait for something, the lock of the interpreter included."""
    own = str(_get_native_id())
    others = [f"{_TASKS}/{task}/stat".encode() for task in _listdir(_TASKS) if task != own]
    times = 0
    for _ in range(_WAIT_MS):
        times = times + 1 if all(_state(path) in b"SZX" for path in others) else 0
        # Twice: one of them may have waited for another that was looked at later.
        if times == 2:
            return True
        _usleep(1000)
    return False


def _state(path):
    """The letter of a thread's state; none if it has ended."""
    fd = _open(path, os.O_RDONLY | os.O_CLOEXEC)
    if fd < 0:
        return b""
    length = _read(fd, _buffer, 512)
    _close(fd)
    return _buffer.raw[:length].rpartition(b") ")[2][:1]
