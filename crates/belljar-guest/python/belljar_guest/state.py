"""What the driver knows about the cell that runs, and the signals that depend on it.

One instance, `STATE`, shared by all modules. It is small and flat because a signal handler reads it
between any two bytecodes.
"""

from belljar_guest import BUILTINS as __builtins__

import _signal
import _thread
import os
import sys

_read = os.read
_getpid = os.getpid
_get_ident = _thread.get_ident
_signal_set = _signal.signal
_setitimer = _signal.setitimer
_sigmask = _signal.pthread_sigmask
_getitimer = _signal.getitimer
_settrace = sys.settrace
_setprofile = sys.setprofile
_SIG_BLOCK = _signal.SIG_BLOCK
_SIG_UNBLOCK = _signal.SIG_UNBLOCK
SIGINT = int(_signal.SIGINT)
SIGALRM = int(_signal.SIGALRM)
ITIMER_REAL = int(_signal.ITIMER_REAL)
SIG_DFL = _signal.SIG_DFL
_OURS = frozenset((SIGINT, SIGALRM))
# Those that a handler of the user's may answer with an exception; faults and ours left out.
_SHIELDED = frozenset(
    int(getattr(_signal, name))
    for name in ("SIGHUP", "SIGUSR1", "SIGUSR2", "SIGTERM", "SIGCHLD", "SIGURG", "SIGVTALRM")
    + ("SIGPROF", "SIGWINCH", "SIGIO", "SIGPIPE", "SIGQUIT", "SIGCONT", "SIGTSTP")
)


class State:
    """The running cell. `cell` is 0 between cells."""

    __slots__ = (
        "pid",
        "thread",
        "control",
        "interrupts",
        "cell",
        "nonce",
        "armed",
        "interrupted",
        "window",
        "early",
        "hold",
        "pending",
        "alarm",
        "shielded",
        "timer",
        "checkpointing",
        "steward",
        "notes",
        "displays",
        "display_bytes",
        "changes",
        "sent_bytes",
        "shown",
        "captures",
        "value_limit",
        "input",
    )

    def __init__(self):
        self.pid = 0
        self.thread = 0
        self.control = 3
        self.interrupts = 4
        self.hold = 0
        self.alarm = False
        self.shielded = None  # signals that `shield` blocked
        self.timer = None  # the user's timer, paused by `shield`
        self.checkpointing = False  # a checkpoint is being made
        self.steward = False  # this session is a container's, and process 1 of it the steward
        self.early = 0  # a cell that was interrupted before its code could be
        self.value_limit = 0  # characters of an exception's value that the host asked for
        self.input = False  # whether the client answers questions of the cell
        self.begin(0, "")

    def begin(self, cell, nonce):
        """A cell starts (or, with 0, none runs)."""
        self.armed = False
        self.cell = cell
        self.nonce = nonce
        self.interrupted = False
        self.window = False
        self.pending = False
        self.notes = []
        self.displays = 0
        self.display_bytes = 0
        self.changes = 0  # displays, changes of them, and outputs cleared
        self.sent_bytes = 0
        self.shown = {}  # bytes of displays that may change, by id
        self.captures = []  # lists that displays go to instead, the innermost last

    def note(self, words):
        """Notes that something was left out of the answer."""
        if len(self.notes) < 50 and words not in self.notes:
            self.notes.append(words)


STATE = State()


class Overtime(BaseException):
    """A display or a message took longer than its budget."""


def guarded(action, *args):
    """Calls `action` while interrupts may strike; returns what came out of it, or None.

    An interrupt can fall between any two bytecodes, also after `action` ended and before `armed` is
    off. `on_interrupt` therefore raises at most once while this very frame is the running one, and
    the two levels of `try` here are enough to catch that one.
    """
    error = None
    try:
        try:
            STATE.armed = True
            unshield()
            if STATE.early == STATE.cell:
                STATE.early = 0
                STATE.interrupted = True
                raise KeyboardInterrupt
            action(*args)
            STATE.armed = False
            shield()
        except BaseException as caught:
            STATE.armed = False
            error = caught
            shield()
    except BaseException as caught:
        STATE.armed = False
        shield()
        if error is None:
            error = caught
    return error


def shield():
    """Keeps the user's signal handlers and tracing, which may raise, out of the driver.

    A tracing function that raises is removed by that, so that each of the two does so once at most.
    """
    _settrace(None)
    _setprofile(None)
    if STATE.shielded is None:
        STATE.shielded = _SHIELDED
        before = _sigmask(_SIG_BLOCK, _SHIELDED)
        if before:
            STATE.shielded = _SHIELDED - before
    left = _getitimer(ITIMER_REAL)
    if left[0]:
        STATE.timer = left
        _setitimer(ITIMER_REAL, 0)


def unshield():
    """User code runs: its signals arrive and its timer continues."""
    if STATE.timer is not None:
        timer, STATE.timer = STATE.timer, None
        _setitimer(ITIMER_REAL, *timer)
    if STATE.shielded is not None:
        shielded, STATE.shielded = STATE.shielded, None
        _sigmask(_SIG_UNBLOCK, shielded)


_GUARD_CODES = frozenset((guarded.__code__, shield.__code__, unshield.__code__))


def on_interrupt(signum, frame):
    """SIGINT: the host wrote the number of the cell it means into a pipe before it sent this.

    A signal that arrives late therefore never hits a later cell.
    """
    if _getpid() != STATE.pid:
        raise KeyboardInterrupt  # a child made by the user's fork: plain Python behaviour
    mine = STATE.cell
    hit = False
    try:
        while True:
            data = _read(STATE.interrupts, 4096)
            for at in range(0, len(data), 4):
                meant = int.from_bytes(data[at : at + 4], "little")
                if meant == mine:
                    hit = True
                elif meant > mine:
                    STATE.early = meant  # its request is still on the way
            if len(data) < 4096:
                break
    except OSError:
        pass  # empty, or the user's code closed it
    if not hit:
        return
    if not STATE.armed:
        STATE.early = mine  # before its code runs, or after: then no later cell has this number
        return
    STATE.interrupted = True
    if STATE.hold:
        STATE.pending = True  # a frame is half written; `release` raises after it
        return
    if frame is not None and frame.f_code in _GUARD_CODES:
        if STATE.window:
            return
        STATE.window = True
    raise KeyboardInterrupt


def release():
    """Ends a section in which an interrupt had to wait."""
    STATE.hold -= 1
    if STATE.pending and not STATE.hold:
        STATE.pending = False
        if STATE.armed:
            raise KeyboardInterrupt


def on_alarm(signum, frame):
    if STATE.alarm and not STATE.hold:
        raise Overtime


def install_signals():
    """Before each cell, because the one before may have replaced or blocked them."""
    before = _signal_set(SIGINT, on_interrupt)
    _sigmask(_SIG_UNBLOCK, _OURS)
    if before is not on_interrupt and _getpid() == STATE.pid:
        on_interrupt(SIGINT, None)  # one may have come while another handler, or none, heard it


def on_main_thread():
    return _get_ident() == STATE.thread


def limited(seconds, action, *args):
    """`action(*args)`, ended with `Overtime` after `seconds`.

    The timer keeps ticking after the first alarm, for code that swallows the exception. Code that
    swallows them all, or never leaves C, is killed at the host's deadline. The user's own timer and
    handler are restored.
    """
    if STATE.alarm or not on_main_thread():
        # Inside another budget already, or on a thread where no signal arrives.
        return action(*args)
    old_handler = _signal_set(SIGALRM, on_alarm)
    old_left, old_interval = _setitimer(ITIMER_REAL, 0)
    try:
        try:
            STATE.alarm = True
            _setitimer(ITIMER_REAL, seconds, 0.25)
            return action(*args)
        finally:
            STATE.alarm = False
    finally:
        STATE.alarm = False
        _setitimer(ITIMER_REAL, 0)
        _signal_set(SIGALRM, SIG_DFL if old_handler is None else old_handler)
        if old_left:
            _setitimer(ITIMER_REAL, old_left, old_interval)
