"""`input()` and `getpass.getpass()`: lines that the client is asked for, where it answers."""

from belljar_guest import BUILTINS as __builtins__

import _thread
import builtins
import getpass as _getpass_module
import os
import sys

from belljar_guest.state import STATE
from belljar_guest.wire import plain

_input = input
_getpass = _getpass_module.getpass
_getpid = os.getpid
_allocate_lock = _thread.allocate_lock

# What the host takes; characters of a prompt, and questions of a cell.
_MOST = 1000
_MOST_QUESTIONS = 1000
_NOBODY = "no answer: the client of this cell does not answer input()"


class _Questions:
    """One question at a time, whatever threads ask."""

    def __init__(self, session):
        self._session = session
        self._lock = None
        self._of = None  # the process and cell that the lock and the count are for
        self._asked = 0

    def is_answered(self):
        return bool(
            STATE.input
            and STATE.cell
            and _getpid() == STATE.pid
            and sys.stdin is self._session.streams.stdin
        )

    def ask(self, prompt, password):
        of = STATE.pid, STATE.cell
        if self._of != of:
            # A thread of an earlier cell, or one that a fork lacks, may have held it.
            self._lock, self._of, self._asked = _allocate_lock(), of, 0
        prompt = plain(str(prompt)[: _MOST + 1])
        if len(prompt) > _MOST:
            prompt = prompt[:_MOST] + "…"
        with self._lock:
            if self._asked >= _MOST_QUESTIONS:
                raise EOFError(f"a cell may ask {_MOST_QUESTIONS} questions, and this one has asked them")
            self._asked += 1
            line = self._session.calls.ask(prompt, password)
        if line is None:
            raise EOFError("end of input")
        return line

    def explain(self, read, *args, **options):
        """What Python itself does, with a reason where there can be no input."""
        try:
            return read(*args, **options)
        except EOFError:
            if sys.stdin is self._session.streams.stdin:
                raise EOFError(_NOBODY) from None
            raise


def install(session):
    """In the template, since a change of `builtins` costs."""
    questions = _Questions(session)

    def input(prompt="", /):
        if questions.is_answered():
            return questions.ask(prompt, False)
        return questions.explain(_input, prompt)

    def getpass(prompt="Password: ", stream=None, **options):
        if questions.is_answered():
            return questions.ask(prompt, True)
        return questions.explain(_getpass, prompt, stream, **options)

    for function, original, module in ((input, _input, builtins), (getpass, _getpass, _getpass_module)):
        function.__doc__ = original.__doc__
        function.__qualname__ = function.__name__
        function.__module__ = module.__name__
        setattr(module, function.__name__, function)
