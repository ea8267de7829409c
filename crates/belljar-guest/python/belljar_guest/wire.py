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
    if _getpid() != STATE.pid:
        return  # a child made by the user's fork has no say on this channel
    head = to_json(header)
    if len(head) > MAX_HEADER or len(blob) > MAX_BLOB:
        raise OverflowError("frame over the limit")
    data = frame_lengths(len(head), len(blob)) + head + blob
    if not on_main_thread():
        with _lock:
            _write_all(data)
        return
    STATE.hold += 1
    try:
        with _lock:
            _write_all(data)
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


class Reader:
    """Requests of the host, one after the other. At the end of the stream the session ends."""

    def __init__(self):
        self._buffer = b""
        self.blob = b""  # raw bytes of the last request

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
        self._fill(8)
        head, blob = unpack_lengths(self._buffer)
        end = 8 + head + blob
        self._fill(end)
        request = from_json(self._buffer[8 : 8 + head])
        # Not copied: it may be large.
        self.blob = memoryview(self._buffer)[8 + head : end]
        self._buffer = self._buffer[end:]
        return request
