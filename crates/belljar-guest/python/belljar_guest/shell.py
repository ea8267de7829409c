"""What `get_ipython()` returns: commands of the shell, magics, and the displays that the package
IPython publishes, where it is installed."""

from belljar_guest import BUILTINS as __builtins__

import _string
import importlib.machinery
import os
import re
import signal
import subprocess
import sys
import tempfile
import types

from belljar_guest import displays, magics
from belljar_guest.state import STATE, on_main_thread, release

_getframe = sys._getframe
_eval = eval
_parse_format = _string.formatter_parser
_Popen = subprocess.Popen
_DEVNULL, _PIPE, _STDOUT = subprocess.DEVNULL, subprocess.PIPE, subprocess.STDOUT
_TimeoutExpired = subprocess.TimeoutExpired
_TemporaryFile = tempfile.TemporaryFile
_killpg = os.killpg
_SIGINT, _SIGKILL = int(signal.SIGINT), int(signal.SIGKILL)
_SHELL = next((path for path in ("/bin/bash", "/usr/bin/bash") if os.path.exists(path)), "/bin/sh")
# How long an interrupted command has to end.
_GRACE = 1.0
_find_spec = importlib.machinery.PathFinder.find_spec
_INTERACTIVE = "IPython.core.interactiveshell"

_DOLLAR = re.compile(r"\$(\$?[\w.]+)(?=(?:[^']*'[^']*')*[^']*$)").finditer
_INSTALL = re.compile(
    r"(?:\S*python[\d.]*\s+-m\s+|uv\s+)?pip[\d.]*\s+(install\b[^|;&]*?)\s*(?:[\d&]*>.*|[|;&].*)?\Z", re.S
).match


class Lines(list):
    """The lines that a command printed."""

    @property
    def l(self):
        return list(self)

    @property
    def n(self):
        return "\n".join(self)

    @property
    def s(self):
        return " ".join(self)

    list, nlstr, spstr = l, n, s


class Events:
    """Where libraries register what they want to do after a cell. Their figures are shown anyway."""

    def register(self, event, function):
        pass

    def unregister(self, event, function):
        pass


class DisplayPublisher:
    """Takes what the package IPython displays."""

    def publish(self, data, metadata=None, *, transient=None, update=False, **_):
        displays.publish(data, metadata, (transient or {}).get("display_id"), update)

    def clear_output(self, wait=False):
        displays.clear_output(wait)


class DisplayFormatter:
    """Hands the representations of an object to the package IPython."""

    active_types = ()

    def format(self, value, include=None, exclude=None):
        return displays.formatted(value, include, exclude)


class Shell:
    """The session, as notebooks and libraries know it."""

    def __init__(self, cells, streams):
        self._cells = cells
        self._streams = streams
        self._magics = {}
        self._known_as = None
        self.user_ns = self.user_global_ns = cells.namespace
        self.config = {}
        self.left_directory = None
        self.kernel = types.SimpleNamespace()
        self.events = Events()
        self.display_pub = DisplayPublisher()
        self.display_formatter = DisplayFormatter()

    @property
    def __class__(self):
        # `isinstance` of the package's own class, where that is loaded, decides whom it talks to.
        return self._known_as or Shell

    def get_ipython(self):
        """The object that stands for this session."""
        return self

    def run_line_magic(self, name, line="", _stack_depth=1):
        own = self._magics.get(("line", name))
        if own is not None:
            return own(self.var_expand(line))
        magic = magics.LINE.get(name)
        if magic is None:
            raise magics.unknown("%", name, magics.LINE)
        if name not in magics.AS_IT_IS:
            line = self.var_expand(line)
        return magic(self, line)

    def run_cell_magic(self, name, line, cell):
        own = self._magics.get(("cell", name))
        if own is not None:
            return own(self.var_expand(line), cell)
        magic = magics.CELL.get(name)
        if magic is None:
            raise magics.unknown("%%", name, magics.CELL)
        if name not in magics.AS_IT_IS:
            line = self.var_expand(line)
        return magic(self, line, cell)

    def magic(self, line):
        name, _, rest = line.strip().lstrip("%").partition(" ")
        return self.run_line_magic(name, rest.strip())

    def register_magic_function(self, function, magic_kind="line", magic_name=None):
        kinds = ("line", "cell") if magic_kind == "line_cell" else (magic_kind,)
        for kind in kinds:
            self._magics[kind, magic_name or function.__name__] = function

    def run_cell(self, code, *_, **__):
        """Runs source with IPython's notation, and shows its value."""
        value = self.evaluate(code)
        if value is not None:
            displays.show(value)

    def ev(self, code):
        return self.evaluate(code)

    def ex(self, code):
        self.evaluate(code)

    def evaluate(self, code, skip=None):
        """The value of code. With `skip` it is a part of the running cell, so many lines after the
        line that called this."""
        frame = caller()
        filename, names = "<string>", self.user_ns
        if frame is not None:
            names = frame.f_locals
            if skip is not None:
                filename = frame.f_code.co_filename
                code = "\n" * (frame.f_lineno - 1 + skip) + code
        body, last, quiet = self._cells.compile(code, filename)
        value = self._cells.evaluate(body, last, names)
        return None if quiet else value

    def locals(self):
        """The names that the running code sees before those of the namespace."""
        frame = caller()
        return {} if frame is None else frame.f_locals

    # Commands.

    def system(self, command):
        """Runs a command. Its output is that of the cell, while it runs."""
        command = self.var_expand(command)
        install = _INSTALL(command)
        if install:
            return magics.pip(self, install.group(1))
        self.user_ns["_exit_code"] = self.run_program([_SHELL, "-c", command], apart=False)

    system_piped = system_raw = system

    def getoutput(self, command, split=True, depth=0):
        """The lines that a command prints, on either stream."""
        program = [_SHELL, "-c", self.var_expand(command)]
        data = _follow(program, _DEVNULL, _PIPE, _STDOUT)[1]
        text = data.decode("utf-8", "backslashreplace")
        return Lines(text.splitlines()) if split else text

    def run_program(self, arguments, source=None, apart=True):
        """Runs a program; returns its exit code. `apart`: its errors go to standard error."""
        given = _DEVNULL
        if source is not None:
            given = _TemporaryFile()
            given.write(source.encode("utf-8", "surrogatepass"))
            given.seek(0)
        try:
            return self._run_program(arguments, given, apart)
        finally:
            if given is not _DEVNULL:
                given.close()

    def _run_program(self, arguments, given, apart):
        if sys.stdout is self._streams.stdout:
            # All that was printed comes first, on either stream.
            sys.stdout.write("")
            self._streams.flush()
            return _follow(arguments, given, 1, 2 if apart else 1)[0]
        # The code has another place for what is printed.
        code, *texts = _follow(arguments, given, _PIPE, _PIPE if apart else _STDOUT)
        for stream, data in zip((sys.stdout, sys.stderr), texts):
            if data:
                stream.write(data.decode("utf-8", "backslashreplace"))
        return code

    def var_expand(self, text, *_, **__):
        """`{expression}` and `$name` as the code would see them; a variable that it has not is the
        shell's, and so is all of a text with an expression that fails."""
        if "{" not in text and "$" not in text:
            return text
        names = {**self.user_ns, **self.locals()}
        out = []
        try:
            for literal, field, form, conversion in _parse_format(text):
                at = 0
                for found in _DOLLAR(literal):
                    out.append(literal[at : found.start()])
                    out.append(_variable(found, names))
                    at = found.end()
                out.append(literal[at:])
                if field is not None:
                    # No formats here: a colon is that of a slice.
                    value = _eval(field + (":" + form if form else ""), names)
                    out.append(repr(value) if conversion == "r" else str(value))
        except Exception:
            return text
        return "".join(out)

    # The package IPython, where it is installed.

    def find_spec(self, name, path=None, target=None):
        """As a finder of imports: makes this the shell of the package, as soon as that is loaded."""
        if name != _INTERACTIVE:
            return None
        spec = _find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            self.join(module)

        spec.loader.exec_module = exec_module
        return spec

    def join(self, module):
        base = module.InteractiveShell
        self._known_as = type(base)("ZMQInteractiveShell", (base,), {})
        base._instance = self


Shell.__name__ = Shell.__qualname__ = "ZMQInteractiveShell"
Shell.__module__ = "ipykernel.zmqshell"


def caller():
    """The innermost frame of a cell's code that led here."""
    frame = _getframe(1)
    while frame is not None and not frame.f_code.co_filename.startswith("<cell "):
        frame = frame.f_back
    return frame


def _variable(found, names):
    name = found.group(1)
    if name[0] == "$":
        return name
    if name.split(".", 1)[0] not in names:
        return found.group()
    return str(_eval(name, names))


def _follow(arguments, stdin, stdout, stderr):
    """Runs a program to its end; returns its exit code and what it wrote into pipes. Whatever ends the
    wait ends the program and all that it started."""
    child = None
    try:
        # An interrupt between the start and the assignment would leave it running.
        held = on_main_thread()
        if held:
            STATE.hold += 1
        try:
            child = _Popen(
                arguments, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True
            )
        finally:
            if held:
                release()
        texts = child.communicate()
        return child.returncode, *texts
    except BaseException:
        if child is not None:
            _end(child)
        raise


def _end(child):
    for number in (_SIGINT, _SIGKILL):
        try:
            _killpg(child.pid, number)
        except ProcessLookupError:
            pass
        try:
            child.wait(_GRACE)
        except _TimeoutExpired:
            pass
