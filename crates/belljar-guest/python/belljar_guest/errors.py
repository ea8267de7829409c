"""Exceptions as they are reported to the host: type, message and traceback survive whatever the
user's classes do meanwhile."""

from belljar_guest import BUILTINS as __builtins__

import linecache
import re
import sys
import traceback

from belljar_guest import HOME
from belljar_guest.names import module, qualname, short_name
from belljar_guest.state import STATE, Overtime, limited

_TracebackException = traceback.TracebackException
_StackSummary = traceback.StackSummary
_cause = BaseException.__dict__["__cause__"].__get__
_context = BaseException.__dict__["__context__"].__get__
_traceback = BaseException.__dict__["__traceback__"].__get__
_cache = linecache.cache
_checkcache = linecache.checkcache
_Group = getattr(sys.modules["builtins"], "BaseExceptionGroup", None)

_MAX_TEXT = 16 << 10
_MAX_TRACEBACK = 64 << 10
# Exceptions that belong to one, by cause, context or group, before only the outermost is reported.
_MAX_RELATED = 50
_MAX_FRAMES = 400

# Source lines of each cell, kept apart from linecache, which user code may clear.
_sources = {}


def remember(filename, source):
    """Keeps a cell's source for tracebacks of this and later cells."""
    entry = (len(source), None, [line + "\n" for line in source.split("\n")], filename)
    _sources[filename] = entry
    _cache[filename] = entry


def sources():
    """The sources of all cells so far, by file name."""
    return {filename: "".join(entry[2])[:-1] for filename, entry in _sources.items()}


_MARK = re.compile(r"\[\.\.\. (\d{1,18}) characters left out \.\.\.\]")


def cut(text, limit):
    """`text` cut in the middle with a mark where it is too long. It counts what was cut before."""
    if len(text) <= limit:
        return text
    half = limit // 2 - 40
    left_out = len(text) - 2 * half
    for mark in _MARK.finditer(text, half, len(text) - half):
        left_out += int(mark.group(1)) - len(mark.group())
    return f"{text[:half]}\n[... {left_out} characters left out ...]\n{text[-half:]}"


def describe(error, filename, compiling=False, waiting_at=None):
    """The `ExceptionInfo` of an exception that came out of the cell `filename`.

    `compiling`: it came from the compiler, so there are no frames of the user to show.
    `waiting_at`: the line of an `await` that it struck; its frames are only those of asyncio.
    """
    cls = type(error)
    where = module(cls)
    name = qualname(cls)[:500]
    full = name if where in ("builtins", "__main__") else where[:500] + "." + name
    value, value_ok = _ask(str, error, full, max(_MAX_TEXT, STATE.value_limit))
    shown, _ = _ask(repr, error, full, _MAX_TEXT)
    told = {"type": full, "name": short_name(cls)[:500], "value": value, "repr": shown}
    line = None
    try:
        line = _syntax_line(error, filename) if compiling else _last_line(error, filename)
    except Exception:
        pass
    if line is None and waiting_at:
        text = _frame_text(filename, waiting_at, "<module>")
        text = f"Traceback (most recent call last):\n{text}{full}\n"
        return {**told, "traceback": text, "line": waiting_at}
    text = None
    related = _count_related(error)
    if value_ok and related <= _MAX_RELATED:
        try:
            text = limited(2.0, _format, error, compiling)
        except KeyboardInterrupt:
            raise
        except BaseException:
            pass  # a hostile class, a patched traceback module, too deep: reported in our own words
    if not text:
        text = _format_simply(error, full, value, related)
    return {**told, "traceback": cut(text, _MAX_TRACEBACK), "line": line}


def _ask(question, error, full, limit):
    """`str` or `repr` of an exception, whatever its class does."""
    try:
        text = limited(1.0, question, error)
        if type(text) is not str:
            text = str.__str__(text)
        return cut(text, limit), True
    except Overtime:
        return f"<{full}: its {question.__name__} took longer than 1 s>", False
    except KeyboardInterrupt:
        raise
    except BaseException as other:
        return f"<{full}: its {question.__name__} raised {qualname(type(other))}>", False


def _count_related(error):
    """How many exceptions hang together with this one; stops counting when there are too many."""
    seen = set()
    stack = [error]
    while stack and len(seen) <= _MAX_RELATED:
        one = stack.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        stack.append(_cause(one))
        stack.append(_context(one))
        if _Group is not None and isinstance(one, _Group):
            parts = _Group.exceptions.__get__(one)
            stack.extend(parts[: _MAX_RELATED + 1])
    return len(seen)


def _last_line(error, filename):
    line = None
    tb = _traceback(error)
    while tb is not None:
        if tb.tb_frame.f_code.co_filename == filename:
            line = tb.tb_lineno
        tb = tb.tb_next
    return line if line and line > 0 else None


def _syntax_line(error, filename):
    if isinstance(error, SyntaxError) and error.filename == filename:
        line = error.lineno
        return line if type(line) is int and line > 0 else None
    return None


def _format(error, compiling):
    # A cell may have emptied linecache.
    for filename, entry in _sources.items():
        if _cache.get(filename) is not entry:
            _cache[filename] = entry
    tb = _trim(_traceback(error))
    limit = None
    if _depth(tb, _MAX_FRAMES) >= _MAX_FRAMES:
        limit = -_MAX_FRAMES // 2  # the innermost frames tell where it happened
    told = _TracebackException(type(error), error, tb, limit=limit, compact=True)
    if compiling:
        return "".join(told.format_exception_only())
    _drop_own_frames(told)
    return "".join(told.format())


def _trim(tb):
    """Drops what stands before the cell's first frame: the driver, and asyncio under an `await`."""
    first = tb
    while first is not None and not first.tb_frame.f_code.co_filename.startswith("<cell "):
        first = first.tb_next
    if first is not None:
        return first
    while tb is not None and tb.tb_frame.f_code.co_filename.startswith(HOME):
        tb = tb.tb_next
    return tb


def _depth(tb, enough):
    depth = 0
    while tb is not None and depth < enough:
        depth += 1
        tb = tb.tb_next
    return depth


def _drop_own_frames(told):
    stack = [told]
    seen = set()
    while stack:
        one = stack.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        if one.stack:
            one.stack[:] = [frame for frame in one.stack if not frame.filename.startswith(HOME)]
        stack.append(one.__cause__)
        stack.append(one.__context__)
        stack.extend(getattr(one, "exceptions", None) or ())


def _format_simply(error, full, value, related):
    """A traceback written without the traceback module, for exceptions that it can't take."""
    lines = ["Traceback (most recent call last):\n"]
    frames = []
    tb = _trim(_traceback(error))
    left_out = 0
    while tb is not None:
        frames.append(tb)
        if len(frames) > 40:
            frames.pop(20)
            left_out += 1
        tb = tb.tb_next
    for at, tb in enumerate(frames):
        if left_out and at == 20:
            lines.append(f"  [... {left_out} frames left out ...]\n")
        code = tb.tb_frame.f_code
        lines.append(_frame_text(code.co_filename, tb.tb_lineno, code.co_name))
    lines.append(f"{full}: {value}\n" if value else f"{full}\n")
    if related > 1:
        lines.append("[exceptions that belong to this one are left out]\n")
    return "".join(lines)


def _frame_text(filename, line, name):
    text = f'  File "{filename}", line {line}, in {name}\n'
    entry = _sources.get(filename)
    if entry and line and 0 < line <= len(entry[2]):
        text += f"    {entry[2][line - 1].strip()}\n"
    return text
