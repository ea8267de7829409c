"""Reading a table of the session, in a process of its own that is a copy of this one.

So nothing of the namespace changes, the code of the values' classes can be killed when its time is
up, and memory for sorting is given back. This process only passes on bytes.
"""

from belljar_guest import BUILTINS as __builtins__

import _signal
import gc
import os
import select
import time

from belljar_guest.checkpoints import begin, end, reap, set_memory_score
from belljar_guest.table_views import Unreadable, write_view
from belljar_guest.wire import send

_fork = os.fork
_pipe2 = os.pipe2
_read = os.read
_write = os.write
_open = os.open
_close = os.close
_dup2 = os.dup2
_kill = os.kill
_exit = os._exit
_poll = select.poll
_POLLIN = select.POLLIN
_SIGKILL = int(_signal.SIGKILL)
_now = time.monotonic
_disable_collection = gc.disable

_CHUNK = 64 << 10
_MISSING = object()
# The last byte of the process says how it ended. No text has such a byte; without it, it was killed.
_ENDS = (None, "not_a_table", "no_column", "not_comparable", "killed", "failed")
_FIRST_END = 0xF8


def read_table(names, request):
    """Answers with parts, if there is more than one, and with the end: the last part, or why there is none."""
    value = names.get(request["name"], _MISSING)
    if value is _MISSING:
        problem, rest = "no_name", b""
    else:
        problem, rest = _read_apart(value, request)
    if problem is None:
        send({"type": "table_end"}, rest)
    else:
        send({"type": "table_end", "problem": problem})


def _read_apart(value, request):
    begun = begin()
    if begun is None:
        return "no_process", b""
    try:
        try:
            source, target = _pipe2(os.O_CLOEXEC)
        except OSError:
            return "no_process", b""
        try:
            child = _fork()
        except OSError:
            _close(source)
            _close(target)
            return "no_process", b""
        if child == 0:
            _write_and_exit(value, request, target)
    finally:
        end(begun)
    _close(target)
    try:
        return _pass_on(source, request)
    finally:
        _close(source)
        try:
            _kill(child, _SIGKILL)
        except OSError:
            pass  # it has ended, and the user's code ignores SIGCHLD
        reap(child)


def _pass_on(source, request):
    """Sends whole parts on. Returns the problem, if there is one, and the rest."""
    deadline = _now() + request["seconds"]
    room, part = request["limit_bytes"], request["part_bytes"]
    watch = _poll()
    watch.register(source, _POLLIN)
    held = bytearray()
    while True:
        left = deadline - _now()
        if left <= 0 or not watch.poll(left * 1000):
            return "too_slow", b""
        data = _read(source, _CHUNK)
        if not data:
            break
        held += data
        room -= len(data)
        if room < -1:
            return "too_large", b""
        while len(held) > part:
            send({"type": "table_part"}, bytes(held[:part]))
            del held[:part]
    if not held or held[-1] < _FIRST_END:
        return "killed", b""
    problem = _ENDS[held.pop() - _FIRST_END]
    return problem, bytes(held)


def _write_and_exit(value, request, target):
    """In the copy: no signal arrives, and what it prints is lost."""
    try:
        ended = "failed"
        try:
            _disable_collection()
            # If memory is short, the kernel ends this process and not the session.
            set_memory_score(b"1000")
            nothing = _open("/dev/null", os.O_WRONLY | os.O_CLOEXEC)
            for fd in (1, 2):
                _dup2(nothing, fd)
            write_view(value, request, lambda data: _write_whole(target, data))
            ended = None
        except Unreadable as error:
            ended = error.args[0]
        except MemoryError:
            ended = "killed"
        except BaseException:
            pass  # of the values' classes, or what pandas can't do with them
        _write(target, bytes((_FIRST_END + _ENDS.index(ended),)))
    finally:
        _exit(0)


def _write_whole(fd, data):
    view = memoryview(data)
    while view:
        view = view[_write(fd, view) :]
