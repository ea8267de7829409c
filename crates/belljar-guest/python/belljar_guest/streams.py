"""sys.stdin, sys.stdout and sys.stderr of a session.

They are ordinary text streams on descriptors 0, 1 and 2, so output of C code and of child programs
goes the same way. The two outputs are separate pipes; to keep their order for the host, a write to
one first waits until the host has emptied the other.
"""

from belljar_guest import BUILTINS as __builtins__

import ctypes
import fcntl
import io
import os
import sys
import termios
import time

from belljar_guest.state import STATE

_ioctl = fcntl.ioctl
_FIONREAD = termios.FIONREAD
_sleep = time.sleep
_now = time.monotonic
_text_write = io.TextIOWrapper.write
_text_flush = io.TextIOWrapper.flush
_FileIO = io.FileIO
_BufferedReader = io.BufferedReader
_BufferedWriter = io.BufferedWriter
_TextIOWrapper = io.TextIOWrapper
_fflush = ctypes.CDLL(None).fflush
_fflush.argtypes = [ctypes.c_void_p]
_fflush.restype = ctypes.c_int

# One wait, and all waits of one cell: a program that alternates a million times must not crawl. The
# host reads within microseconds, but on a busy machine it may have to wait for a CPU first.
_WAIT = 0.2
_WAIT_PER_CELL = 1.0


class _Order:
    """Which stream was written last, and how long this cell has waited for the host."""

    __slots__ = ("last", "waited")

    def __init__(self):
        self.last = None
        self.waited = 0.0


_order = _Order()


class Stream(_TextIOWrapper):
    """Standard output or standard error."""

    def write(self, text):
        if _order.last is not self:
            _switch(self)
        return _text_write(self, text)


def _switch(stream):
    previous = _order.last
    _order.last = stream
    if previous is None:
        return
    try:
        _text_flush(previous)
        fd = previous.fileno()
    except (OSError, ValueError):
        return
    if _order.waited < _WAIT_PER_CELL and not _is_empty(fd):
        start = _now()
        _drain(fd)
        _order.waited += _now() - start


def _drain(fd):
    start = _now()
    pause = 0.00002
    while not _is_empty(fd) and _now() - start < _WAIT:
        _sleep(pause)
        pause = min(pause * 2, 0.001)


def drain():
    """Waits until the host has read all that was written so far, on both streams."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass  # whatever the code has put there
    _drain(1)
    _drain(2)


def _is_empty(fd):
    """Whether the host has read all that was written to this pipe."""
    try:
        return _ioctl(fd, _FIONREAD, b"\0\0\0\0") == b"\0\0\0\0"
    except OSError:
        return True


def _output(fd):
    raw = _FileIO(fd, "w", closefd=False)
    stream = Stream(
        _BufferedWriter(raw, 8192),
        encoding="utf-8",
        errors="backslashreplace",
        newline="\n",
        line_buffering=True,
    )
    stream.mode = "w"
    return stream


def _input():
    return _TextIOWrapper(_BufferedReader(_FileIO(0, "r", closefd=False)), encoding="utf-8")


class Streams:
    """Keeps the three in place."""

    def __init__(self):
        # Made in the template, where 0, 1 and 2 may be anything: a stream asks its descriptor
        # whether it can seek when it is made, so they are what they will be in a session.
        null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        pipe = os.pipe2(os.O_CLOEXEC)
        saved = [os.dup(fd) for fd in range(3)]
        try:
            os.dup2(null, 0)
            os.dup2(pipe[1], 1)
            os.dup2(pipe[1], 2)
            self.stdin, self.stdout, self.stderr = _input(), _output(1), _output(2)
        finally:
            for fd, copy in enumerate(saved):
                os.dup2(copy, fd)
            for fd in (null, *pipe, *saved):
                os.close(fd)

    def install(self):
        """In the session's process."""
        self.restore()
        sys.__stdin__ = self.stdin
        sys.__stdout__ = self.stdout
        sys.__stderr__ = self.stderr

    def restore(self):
        """Before each cell: undoes `sys.stdout = ...` and `sys.stdout.close()` of the one before."""
        _order.last = None
        _order.waited = 0.0
        if self.stdout.closed:
            self.stdout = sys.__stdout__ = _output(1)
        if self.stderr.closed:
            self.stderr = sys.__stderr__ = _output(2)
        if self.stdin.closed:
            self.stdin = sys.__stdin__ = _input()
        sys.stdin = self.stdin
        sys.stdout = self.stdout
        sys.stderr = self.stderr

    def flush(self):
        """All that was written goes to the descriptors, also what C code has buffered."""
        _fflush(None)
        last = _order.last
        pair = (self.stderr, self.stdout) if last is self.stdout else (self.stdout, self.stderr)
        for stream in pair:
            try:
                _text_flush(stream)
            except (OSError, ValueError) as error:
                STATE.note("output could not be written: " + type(error).__name__)

    def write_error(self, text):
        """Says something on standard error as Python itself would."""
        try:
            Stream.write(self.stderr, text)
            _text_flush(self.stderr)
        except (OSError, ValueError):
            pass
