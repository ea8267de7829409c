"""The magics of a session: what `%name` and `%%name` do."""

from belljar_guest import BUILTINS as __builtins__

import contextlib
import io
import os
import re
import resource
import shlex
import subprocess
import sys
import time
import timeit as _timeit

from belljar_guest import displays
from belljar_guest.inspection import describe_name

_environ = os.environ
_scandir = os.scandir
_expanduser = os.path.expanduser
_exists = os.path.exists
_chdir = os.chdir
_getcwd = os.getcwd
_split = shlex.split
_perf = time.perf_counter
_getrusage = resource.getrusage
_SELF = resource.RUSAGE_SELF
_Timer = _timeit.Timer
_CalledProcessError = subprocess.CalledProcessError
_redirect_stdout = contextlib.redirect_stdout
_redirect_stderr = contextlib.redirect_stderr
_ExitStack = contextlib.ExitStack
_StringIO = io.StringIO
_PACKAGE = re.compile(r"[A-Za-z0-9._-]+").match
_SEPARATORS = re.compile(r"[-_.]+")


class UsageError(Exception):
    """A magic that is not there, or that can't do what it was asked for."""


UsageError.__module__ = "builtins"


def unknown(mark, name, known):
    there = ", ".join(mark + one for one in sorted(known) if not one.startswith("pinfo"))
    return UsageError(f"magic `{mark}{name}` is not available in a session; available: {there}")


# Nothing to do: figures and settings are as they would set them.


def _nothing(shell, line):
    pass


# Packages.


def _normal(name):
    return _SEPARATORS.sub("-", name).lower()


def _installed():
    """The versions of installed packages, by name."""
    found = {}
    for folder in sys.path:
        try:
            with _scandir(folder or ".") as entries:
                names = [entry.name for entry in entries if entry.name.endswith(".dist-info")]
        except (OSError, TypeError, ValueError):
            continue
        for name in names:
            name, _, version = name[: -len(".dist-info")].partition("-")
            found.setdefault(_normal(name), version)
    return found


def pip(shell, line):
    """The host has installed what it could before the cell began: this tells."""
    words = _split(line, comments=True)
    if words[:1] != ["install"]:
        raise UsageError("of pip, a session has `%pip install NAME` only")
    there = _installed()
    missing = []
    for word in words[1:]:
        name = _PACKAGE(word)
        if word.startswith("-") or not name:
            continue
        version = there.get(_normal(name.group()))
        if version is None:
            missing.append(f"`{word}`")
        else:
            print(f"Requirement already satisfied: {word} ({version})")
    if missing:
        raise UsageError(
            f"{', '.join(missing)} cannot be installed here: `%pip install` must be before the first "
            "statement of a cell, and the package policy of the session must allow the package"
        )


def uv(shell, line):
    if not line.startswith("pip "):
        raise UsageError("of uv, a session has `%uv pip install NAME` only")
    return pip(shell, line[4:].strip())


# Places and variables.


def cd(shell, line):
    words = _split(line)
    quiet = "-q" in words
    words = [word for word in words if word != "-q"]
    place = words[0] if words else "~"
    before = _getcwd()
    if place == "-":
        place = shell.left_directory or before
    _chdir(_expanduser(place))
    shell.left_directory = before
    if not quiet:
        print(_getcwd())


def pwd(shell, line):
    return _getcwd()


def env(shell, line):
    if not line:
        return dict(_environ)
    name, equals, value = line.partition("=" if "=" in line.split()[0] else " ")
    name, value = name.strip(), value.strip()
    if not equals:
        if name not in _environ:
            raise UsageError(f"environment variable `{name}` is not set")
        return _environ[name]
    value = value[1:].strip() if value.startswith("=") else value
    _environ[name] = value
    print(f"env: {name}={value}")


# Time.

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "μs"), (1e-9, "ns"))


def _duration(seconds):
    if seconds >= 60:
        minutes, rest = divmod(int(seconds), 60)
        hours, minutes = divmod(minutes, 60)
        parts = (hours, "h"), (minutes, "min"), (rest, "s")
        return " ".join(f"{number}{unit}" for number, unit in parts if number)
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def _timed(shell, code, skip):
    used, start = _getrusage(_SELF), _perf()
    try:
        return shell.evaluate(code, skip)
    finally:
        wall, now = _perf() - start, _getrusage(_SELF)
        user, system = now.ru_utime - used.ru_utime, now.ru_stime - used.ru_stime
        total = _duration(user + system)
        print(f"CPU times: user {_duration(user)}, sys: {_duration(system)}, total: {total}")
        print(f"Wall time: {_duration(wall)}")


def time_line(shell, line):
    return _timed(shell, line, 0)


def time_cell(shell, line, body):
    return _timed(shell, body, 1)


class TimeitResult:
    """What `%timeit -o` returns."""

    def __init__(self, loops, timings):
        self.loops = loops
        self.repeat = len(timings)
        self.timings = timings
        self.best, self.worst = min(timings), max(timings)
        self.average = sum(timings) / len(timings)
        spread = sum((one - self.average) ** 2 for one in timings) / len(timings)
        self.stdev = spread**0.5

    def __str__(self):
        runs = f"{self.repeat} run{'s' if self.repeat > 1 else ''}"
        loops = f"{self.loops:,} loop{'s' if self.loops > 1 else ''} each"
        mean = f"{_duration(self.average)} ± {_duration(self.stdev)} per loop"
        return f"{mean} (mean ± std. dev. of {runs}, {loops})"

    def __repr__(self):
        return f"<TimeitResult : {self}>"


_TIMEIT = re.compile(r"-([nr])\s*(\d+)\s*|-([qo]+)\s*|-p\s*\d+\s*").match


def timeit_line(shell, line, body=None):
    options = {}
    found = _TIMEIT(line)
    while found:
        if found.group(1):
            options[found.group(1)] = int(found.group(2))
        for letter in found.group(3) or "":
            options[letter] = True
        line = line[found.end() :]
        found = _TIMEIT(line)
    names = dict(shell.user_ns)
    names.update(shell.locals())
    code, setup = (line, "pass") if body is None else (body, line or "pass")
    timer = _Timer(code, setup, globals=names)
    loops = options.get("n") or timer.autorange()[0]
    timings = timer.repeat(max(1, options.get("r", 7)), loops)
    result = TimeitResult(loops, [one / loops for one in timings])
    if "q" not in options:
        print(result)
    return result if "o" in options else None


# Cells that are no Python.


def _script(program):
    def run(shell, line, body):
        code = shell.run_program([program, *_split(line)], source=body)
        if code:
            raise _CalledProcessError(code, program)

    return run


def writefile(shell, line, body):
    words = _split(line)
    append = "-a" in words or "--append" in words
    words = [word for word in words if word not in ("-a", "--append")]
    if len(words) != 1:
        raise UsageError("usage: %%writefile [-a] PATH")
    path = _expanduser(words[0])
    verb = "Appending to" if append else "Overwriting" if _exists(path) else "Writing"
    print(verb, path)
    with open(path, "a" if append else "w", encoding="utf-8") as file:
        file.write(body)


def _show_as(mime, kind):
    def run(shell, line, body):
        displays.publish({"text/plain": f"<IPython.core.display.{kind} object>", mime: body})

    return run


class Captured:
    """What a cell with `%%capture` printed and displayed."""

    def __init__(self, stdout, stderr, outputs):
        self._stdout, self._stderr = stdout, stderr
        self.outputs = outputs

    @property
    def stdout(self):
        return self._stdout.getvalue()

    @property
    def stderr(self):
        return self._stderr.getvalue()

    def show(self):
        sys.stdout.write(self.stdout)
        sys.stderr.write(self.stderr)
        for one in self.outputs:
            one.display()

    __call__ = show

    def __str__(self):
        return self.stdout


def capture(shell, line, body):
    words = _split(line)
    names = [word for word in words if not word.startswith("-")]
    captured = Captured(_StringIO(), _StringIO(), [])
    with _ExitStack() as stack:
        if "--no-stdout" not in words:
            stack.enter_context(_redirect_stdout(captured._stdout))
        if "--no-stderr" not in words:
            stack.enter_context(_redirect_stderr(captured._stderr))
        if "--no-display" not in words:
            stack.enter_context(displays.capturing(captured.outputs))
        value = shell.evaluate(body, 1)
        if value is not None:
            displays.show(value)
    if names:
        shell.user_ns[names[0]] = captured


# The namespace.


def _names(shell, line):
    kinds = line.split()
    names = [name for name in shell.user_ns if type(name) is str and not name.startswith("_")]
    of = {name: type(shell.user_ns[name]).__name__ for name in sorted(names)}
    return {name: kind for name, kind in of.items() if not kinds or kind in kinds}


def who(shell, line):
    names = list(_names(shell, line))
    if not names:
        print("Interactive namespace is empty.")
        return
    for at in range(0, len(names), 9):
        print("".join(f"{name}\t " for name in names[at : at + 9]))


def who_ls(shell, line):
    return list(_names(shell, line))


def whos(shell, line):
    names = _names(shell, line)
    if not names:
        print("Interactive namespace is empty.")
        return
    width = max(len("Variable"), *map(len, names)) + 3
    kinds = max(len("Type"), *map(len, names.values())) + 3
    head = f"{'Variable':{width}}{'Type':{kinds}} Data/Info"
    print(head)
    print("-" * len(head))
    for name, kind in names.items():
        print(f"{name:{width}}{kind:{kinds}} {_data(shell.user_ns[name], kind)}")


def _data(value, kind):
    if kind in ("dict", "list", "tuple"):
        return f"n={len(value)}"
    text = str(value).replace("\n", "\\n")
    return text if len(text) < 50 else f"{text[:25]}<...>{text[-25:]}"


def run(shell, line):
    words = _split(line)
    inside = "-i" in words[:1]
    words = words[1:] if inside else words
    if not words or words[0].startswith("-"):
        raise UsageError("usage: %run [-i] FILE [ARGUMENTS]")
    path = _expanduser(words[0])
    with open(path, encoding="utf-8") as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    names = shell.user_ns if inside else {"__name__": "__main__", "__file__": path}
    before, sys.argv = sys.argv, words
    try:
        exec(code, names)
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.argv = before
        if not inside:
            own = {name: value for name, value in names.items() if not name.startswith("__")}
            shell.user_ns.update(own)


def _describe(detail):
    def tell(shell, line):
        if line.startswith("%"):
            name = line.lstrip("%")
            magic = LINE.get(name) or CELL.get(name)
            text = magic and (magic.__doc__ or f"{line}: a magic of this session")
        else:
            text = describe_name({**shell.user_ns, **shell.locals()}, line, detail)
        print(text or f"Object `{line}` not found.")

    return tell


LINE = {
    "autoreload": _nothing,
    "cd": cd,
    "config": _nothing,
    "env": env,
    "load_ext": _nothing,
    "matplotlib": _nothing,
    "pinfo": _describe(False),
    "pinfo2": _describe(True),
    "pip": pip,
    "pwd": pwd,
    "reload_ext": _nothing,
    "run": run,
    "set_env": env,
    "time": time_line,
    "timeit": timeit_line,
    "uv": uv,
    "who": who,
    "who_ls": who_ls,
    "whos": whos,
}

CELL = {
    "bash": _script("bash"),
    "capture": capture,
    "html": _show_as("text/html", "HTML"),
    "latex": _show_as("text/latex", "Latex"),
    "markdown": _show_as("text/markdown", "Markdown"),
    "sh": _script("sh"),
    "svg": _show_as("image/svg+xml", "SVG"),
    "time": time_cell,
    "timeit": timeit_line,
    "writefile": writefile,
}

# Their line is code, in which `{` and `$` are the code's own.
AS_IT_IS = frozenset(("time", "timeit", "capture", "pinfo", "pinfo2"))
