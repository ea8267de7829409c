"""Calls of a cell to the host, at which the session waits, and can be forked."""

from belljar_guest import BUILTINS as __builtins__

import builtins
import os
import sys
import types

from belljar_guest.forks import fork
from belljar_guest.state import STATE, on_main_thread, release
from belljar_guest.wire import send, to_json

_getpid = os.getpid
_modules = sys.modules
_MOST = 200 << 10


def offer(session):
    """Binds `belljar.ask` for the session's code."""
    number = 0

    def ask(value):
        """Asks the host, waits however long it takes, and returns the answer.

        `value` and the answer are what JSON can hold.
        """
        nonlocal number
        if not STATE.cell or _getpid() != STATE.pid or not on_main_thread():
            raise RuntimeError("belljar.ask is for the main thread of a cell that runs")
        if len(to_json(value)) > _MOST:
            raise ValueError("the value is too large for a question; write it to a file")
        number += 1
        session.streams.flush()
        question = {"cell": STATE.cell, "nonce": STATE.nonce, "call": number, "value": value}
        send({"type": "asked", **question})
        while True:
            # An interrupt strikes here, and never within a request.
            while not session.reader.is_waited_for(60_000):
                pass
            STATE.hold += 1
            try:
                request = session.reader.next()
                if request["type"] == "fork":
                    fork(session, request["count"])
            finally:
                release()
            if request["type"] == "answer" and request["call"] == number:
                if "error" in request:
                    raise RuntimeError(request["error"])
                return request["value"]

    module = types.ModuleType("belljar", "What a cell can ask of the host that runs it.")
    module.ask = ask
    builtins.belljar = _modules["belljar"] = module
