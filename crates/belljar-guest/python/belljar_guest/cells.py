"""Compiling and running one cell."""

from belljar_guest import BUILTINS as __builtins__

import __future__
import ast
import asyncio
import inspect
import re
import time

from belljar_guest import displays, plots_bridge
from belljar_guest.errors import cut, describe, remember
from belljar_guest.rewrite import lines_of, rewrite
from belljar_guest.state import STATE, guarded, limited

_compile = compile
_exec = exec
_eval = eval
_now_ns = time.perf_counter_ns
_Expr = ast.Expr
_Expression = ast.Expression
_PARSE = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_COROUTINE = inspect.CO_COROUTINE
_FUTURES = 0
for _name in __future__.all_feature_names:
    _FUTURES |= getattr(__future__, _name).compiler_flag
_new_loop = asyncio.new_event_loop


_match_statement = re.compile(
    r"(?:[^\W\d]\w*\s*=(?!=)|(?:import|from|del|pass|assert|return|raise|global)\b)"
).match
_find_quoting = re.compile(r"[\"'\\#]").search


def _ends_with_statement(code):
    """Whether the last line is certainly a statement and no expression.

    Certain is: before it nothing is quoted, commented or continued and all brackets are closed, so
    a line starts there; it starts as only a statement can, and holds one statement.
    """
    at = code.rfind("\n") + 1
    if not _match_statement(code, at) or code.find(";", at) >= 0 or _find_quoting(code, 0, at):
        return False
    count = code.count
    return not at or (
        count("(", 0, at) == count(")", 0, at)
        and count("[", 0, at) == count("]", 0, at)
        and count("{", 0, at) == count("}", 0, at)
    )


class Cells:
    """Runs cells in one namespace; keeps what they hand on to each other."""

    def __init__(self, namespace, streams):
        self.namespace = namespace
        self._streams = streams
        self._flags = 0  # `from __future__ import ...` holds for later cells
        self._loop = None
        self._run_ns = 0
        self._awaited_line = None  # where an interrupted `await` stood

    def forget_loop(self):
        """In a fork: what the event loop waits with is its parent's."""
        self._loop = None

    def close_loop(self):
        """No more cells come."""
        if self._loop is not None:
            self._loop.close()

    def run(self, cell, code):
        """Runs one cell; returns the fields of its report that tell how it ended."""
        filename = f"<cell {cell}>"
        self._run_ns = 0
        self._awaited_line = None
        try:
            remember(filename, code)
            body, last, quiet = self.compile(code, filename)
        except BaseException as error:
            # `ValueError`: null bytes or lone surrogates; nothing has run in any of these cases.
            bad_source = isinstance(error, (SyntaxError, ValueError))
            return {
                "end": "syntax" if bad_source else "exception",
                "exception": describe(error, filename, compiling=True),
                "run_us": 0,
            }
        error = guarded(self._execute, body, last, quiet)
        report = self._ending(error, filename)
        report["run_us"] = self._run_ns // 1000
        return report

    def compile(self, code, filename):
        """Statements, a last expression, and whether its value is not shown. Source that is no Python
        is tried once more with IPython's notation in it made Python."""
        try:
            return self._compile(code, filename)
        except SyntaxError:
            python = rewrite(code)
            if python is None:
                raise
        try:
            return self._compile(python, filename)
        except SyntaxError as error:
            line = error.lineno
            if type(line) is int and error.filename == filename:
                mine, theirs = lines_of(code).split("\n"), python.split("\n")
                if 0 < line <= len(theirs) and mine[line - 1] != theirs[line - 1]:
                    error.text, error.offset, error.end_offset = mine[line - 1], 1, 1
            raise error from None

    def _compile(self, code, filename):
        if _ends_with_statement(code):
            # No value to show, so the syntax tree need not be built as Python objects.
            body = _compile(code, filename, "exec", _AWAIT | self._flags, True)
            self._flags |= body.co_flags & _FUTURES
            return body, None, False
        split = self._split(code, filename)
        if split:
            return split
        tree = _compile(code, filename, "exec", _PARSE | self._flags, True)
        last = None
        statements = tree.body
        if statements and type(statements[-1]) is _Expr:
            last = _Expression(statements.pop().value)
        body = None
        flags = self._flags
        if statements:
            body = _compile(tree, filename, "exec", _AWAIT | flags, True)
            flags |= body.co_flags & _FUTURES
        if last is not None:
            last = _compile(last, filename, "eval", _AWAIT | flags, True)
        self._flags = flags
        # As in a notebook, a semicolon at the end keeps the last value from being shown.
        quiet = last is not None and code.rstrip()[-1:] == ";"
        return body, last, quiet

    def _split(self, code, filename):
        """The cell as statements and a last expression, split as text; None where that won't do.

        Building the syntax tree as Python objects costs more than running a short cell. It is not
        needed when all before the last line compiles by itself and the last line, not indented, is
        an expression by itself: then it can't be a part of the statement before it.
        """
        code = code.rstrip()
        at = code.rfind("\n") + 1
        last = code[at:]
        if not last or last[0] in " \t#" or last[-1] == ";":
            return None
        flags = self._flags
        try:
            body = None
            if at:
                body = _compile(code[:at], filename, "exec", _AWAIT | flags, True)
                flags |= body.co_flags & _FUTURES
            # Empty lines before it, so that it has the number it has in the cell.
            last = "\n" * code.count("\n", 0, at) + last
            last = _compile(last, filename, "eval", _AWAIT | flags, True)
        except Exception:
            return None  # the whole is compiled again, and tells what is wrong with it
        self._flags = flags
        return body, last, False

    def _execute(self, body, last, quiet):
        start = _now_ns()
        try:
            value = self.evaluate(body, last, self.namespace)
        finally:
            self._run_ns = _now_ns() - start
        if value is not None:
            self.namespace["_"] = value
            if not quiet:
                displays.show(value, is_result=True)
        if plots_bridge.has_open():
            plots_bridge.show_all(displays.show)

    def evaluate(self, body, last, names):
        """Runs compiled code; returns the value of its last expression."""
        if body is not None:
            if body.co_flags & _COROUTINE:
                self._await(_eval(body, self.namespace, names))
            elif last is not None and last.co_flags & _COROUTINE:
                # It awaits in its last line alone; all of a cell that awaits runs on the loop.
                self._await(_execute_on_loop(body, self.namespace, names))
            else:
                _exec(body, self.namespace, names)
        if last is None:
            return None
        value = _eval(last, self.namespace, names)
        return self._await(value) if last.co_flags & _COROUTINE else value

    def _await(self, coroutine):
        """Runs a cell with a top-level `await` on the session's own event loop."""
        if self._loop is None or self._loop.is_closed():
            self._loop = _new_loop()
        loop = self._loop
        task = loop.create_task(coroutine)
        try:
            return loop.run_until_complete(task)
        except BaseException:
            if not task.done():
                frame = coroutine.cr_frame
                self._awaited_line = frame and frame.f_lineno
                # Interrupted between two steps of the task: let it clean up, but not for ever.
                task.cancel()
                task.add_done_callback(lambda _: loop.stop())
                giving_up = loop.call_later(1.0, loop.stop)
                loop.run_forever()
                giving_up.cancel()
            if task.done() and not task.cancelled():
                task.exception()  # looked at, so that asyncio doesn't complain later
            raise

    def _ending(self, error, filename):
        if error is None:
            return {"end": "ok"}
        if isinstance(error, KeyboardInterrupt) and STATE.interrupted:
            if plots_bridge.has_open():
                STATE.note("figures that were open when the cell was interrupted")
                plots_bridge.close_all()
            told = describe(error, filename, waiting_at=self._awaited_line)
            return {"end": "interrupted", "exception": told}
        if plots_bridge.has_open():
            guarded(plots_bridge.show_all, displays.show)
        if isinstance(error, SystemExit):
            return {"end": "exit", "exit_code": _exit_code(error, self._streams)}
        return {"end": "exception", "exception": describe(error, filename)}


async def _execute_on_loop(body, namespace, names):
    _exec(body, namespace, names)


_system_exit_code = SystemExit.__dict__["code"].__get__


def _exit_code(error, streams):
    """As Python's own: nothing is 0, a number is itself, anything else is printed and is 1."""
    code = _system_exit_code(error)
    if code is None:
        return 0
    if isinstance(code, int):
        return max(-(2**63), min(2**63 - 1, int.__index__(code)))
    try:
        words = cut(str.__str__(limited(1.0, str, code)), 65536)
    except BaseException:
        words = "<exit message that can't be shown>"
    streams.write_error(words + "\n")
    return 1
