"""Frames between the session and the host: two little-endian u32 lengths, JSON header, raw bytes."""

from belljar_guest import BUILTINS as __builtins__

import _thread
import fcntl
import json.decoder
import json.encoder
import os
import select
import struct
import termios
import time

from belljar_guest.state import STATE, on_main_thread, release

_read = os.read
_readv = os.readv
_write = os.write
_writev = os.writev
_getpid = os.getpid
_poll = select.poll
_POLLIN = select.POLLIN
_exit = os._exit
_ioctl = fcntl.ioctl
_OUTQ = termios.TIOCOUTQ
_sleep = time.sleep
_now = time.monotonic
frame_lengths = struct.Struct("<II").pack
unpack_lengths = struct.Struct("<II").unpack_from
_allocate_lock = _thread.allocate_lock
_lock = _allocate_lock()

MAX_HEADER = 8 << 20
MAX_BLOB = 32 << 20
_MOST_VIEWS = 1000  # the kernel takes 1024


def _refuse(value):
    raise TypeError("not a JSON value")


# The C parts of the json module, taken once: patching `json` in a cell doesn't reach them.
_encode = json.encoder.c_make_encoder(
    None, _refuse, json.encoder.c_encode_basestring, None, ":", ",", False, False, False
)
_decode = json.decoder.JSONDecoder().scan_once


def plain(text):
    """`text` without lone surrogates, which are not valid in JSON."""
    try:
        text.encode()
        return text
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()


def to_json(value, encode=_encode):
    """UTF-8 bytes of `value` as JSON. Lone surrogates become visible escapes."""
    text = "".join(encode(value, 0))
    try:
        return text.encode()
    except UnicodeEncodeError:
        # They can only stand inside strings, where `\\\\ud800` is an escaped backslash and text.
        return "".join(
            "\\\\u%04x" % ord(char) if 0xD800 <= ord(char) <= 0xDFFF else char for char in text
        ).encode()


def from_json(data):
    return _decode(data.decode(), 0)[0]


def renew():
    """In a process that is the session from now on: a thread that it does not have may have held it."""
    global _lock
    _lock = _allocate_lock()


def send(header, blob=b""):
    """Writes one frame whole, whatever thread asks and whatever signal arrives meanwhile."""
    _send(_write_all, _head(header, len(blob)) + blob)


def send_views(header, views):
    """As `send`, for large blobs: bytes of views, which are not copied."""
    _send(_write_views, [memoryview(_head(header, sum(map(len, views)))), *views])


def _head(header, blob):
    head = to_json(header)
    if len(head) > MAX_HEADER or blob > MAX_BLOB:
        raise OverflowError("frame over the limit")
    return frame_lengths(len(head), blob) + head


def _send(write, data):
    if _getpid() != STATE.pid:
        return  # a child made by the user's fork has no say on this channel
    if not on_main_thread():
        with _lock:
            write(data)
        return
    STATE.hold += 1
    try:
        with _lock:
            write(data)
    finally:
        release()


def wait_until_read(seconds):
    """Waits until the host has read all frames: what is printed from then on comes after them."""
    start = _now()
    pause = 0.00002
    try:
        while _ioctl(STATE.control, _OUTQ, b"\0\0\0\0") != b"\0\0\0\0" and _now() - start < seconds:
            _sleep(pause)
            pause = min(pause * 2, 0.001)
    except OSError:
        pass  # the code has closed it


def _write_all(data):
    done = _write(STATE.control, data)
    if done < len(data):
        rest = memoryview(data)
        while done < len(rest):
            done += _write(STATE.control, rest[done:])


def _write_views(views):
    at = 0
    while at < len(views):
        done = _writev(STATE.control, views[at : at + _MOST_VIEWS])
        while at < len(views) and done >= len(views[at]):
            done -= len(views[at])
            at += 1
        if done:
            views[at] = views[at][done:]


class Reader:
    """Requests of the host, one after the other. At the end of the stream the session ends."""

    def __init__(self):
        self._buffer = b""
        self.left = 0  # raw bytes of the last request that are not read yet

    def _fill(self, size):
        have = len(self._buffer)
        if have >= size:
            return
        buffer = bytearray(size)
        buffer[:have] = self._buffer
        view = memoryview(buffer)
        while have < size:
            read = _readv(STATE.control, (view[have:],))
            if not read:
                _exit(0)
            have += read
        self._buffer = buffer

    def rehearse(self):
        """Reads a request that nobody sent."""
        if not self._buffer:
            head = to_json({"type": "run", "cell": 0, "nonce": "0" * 16, "code": "x = 1"})
            self._buffer = frame_lengths(len(head), 0) + head
            self.next()

    def is_waited_for(self, milliseconds):
        """Whether a request is there, or comes within this time."""
        if self._buffer:
            return True
        watch = _poll()
        watch.register(STATE.control, _POLLIN)
        return bool(watch.poll(milliseconds))

    def next(self, exactly=False):
        """The next request; with `exactly`, nothing of the one after it is read."""
        if not self._buffer and not exactly:
            # The usual case: the whole request arrives in one read.
            self._buffer = _read(STATE.control, 65536)
            if not self._buffer:
                _exit(0)
        return self.next_head()

    def next_head(self):
        """The next request, of which no more is read: `read_into` must read its raw bytes, if it has any."""
        self._fill(8)
        head, self.left = unpack_lengths(self._buffer)
        self._fill(8 + head)
        request = from_json(self._buffer[8 : 8 + head])
        self._buffer = self._buffer[8 + head :]
        return request

    def read_into(self, view):
        """Reads some raw bytes of the request, at least one; returns how many."""
        view = view[: self.left]
        if self._buffer:
            read = min(len(view), len(self._buffer))
            view[:read] = self._buffer[:read]
            self._buffer = self._buffer[read:]
        else:
            read = _readv(STATE.control, (view,))
            if not read:
                _exit(0)
        self.left -= read
        return read
