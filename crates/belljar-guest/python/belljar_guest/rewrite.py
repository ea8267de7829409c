"""IPython's notation as Python: `!command`, `%magic`, `%%magic`, `name?`.

Only source that Python can't compile comes here, so valid Python means what it always meant. Every
line keeps its number, and nothing runs unless all of the result compiles.
"""

from belljar_guest import BUILTINS as __builtins__

import re

_CELL = re.compile(r"\s*?(?m:^)%%([^\W\d][\w.]*)[ \t]*([^\n]*)(?:\n|\Z)").match
_MAGIC = re.compile(r"%([^\W\d][\w.]*)(?:\s+(.*))?\Z", re.S).match
_NAME = r"%{0,2}[^\W\d]\w*(?:\.[^\W\d]\w*|\[-?\d+\])*"
_HELP = re.compile(rf"(?:(\?\??)\s*({_NAME})|({_NAME})(\?\??))\s*\Z").match
_TARGET = r"[^\W\d]\w*(?:\.[^\W\d]\w*|\[[^\]=]*\])*"
_ASSIGNED = re.compile(rf"({_TARGET}(?:\s*,\s*{_TARGET})*)\s*=\s*([!%].*)\Z", re.S).match
# A line and those that a backslash at its end adds to it.
_LINES = re.compile(r"(?:[^\n]*\\\n)*[^\n]*").match
# What is no bracket and no end of a line. A string that is not closed doesn't match.
_PIECE = re.compile(
    r"""[^'"\#()\[\]{}\\\n]+|\#[^\n]*|\\\n
    |'''(?:[^\\]|\\.)*?'''|\"\"\"(?:[^\\]|\\.)*?\"\"\"
    |(?!''')'(?:[^'\\\n]|\\.)*'|(?!\"\"\")"(?:[^"\\\n]|\\.)*\"""",
    re.S | re.X,
).match


def lines_of(code):
    """`code` with the ends of lines that Python's own compiler sees."""
    return code.replace("\r\n", "\n").replace("\r", "\n")


def rewrite(code):
    """Python with the same lines; None where nothing is IPython's, or something else is broken."""
    code = lines_of(code)
    cell = _CELL(code)
    if cell and not cell.group(2).startswith("?"):
        name, line = cell.groups()
        before = "\n" * code.count("\n", 0, cell.start(1))
        body = code[cell.end() :]
        if body and not body.endswith("\n"):
            body += "\n"
        # As many lines as before, so that an error at the end has a line to show.
        return f"{before}get_ipython().run_cell_magic({name!r}, {line.strip()!r}, {body!r})"
    out = []
    at = copied = depth = 0
    starts = True  # a statement may start here
    while at < len(code):
        if starts:
            starts = False
            end = code.find("\n", at)
            text = code[at : end if end >= 0 else len(code)]
            if "!" in text or "%" in text or "?" in text:
                whole = _LINES(code, at).group()
                call = _statement(whole, text)
                if call is not None:
                    out += (code[copied:at], call, "\n" * whole.count("\n"))
                    at = copied = at + len(whole)
                    continue
        char = code[at]
        if char == "\n":
            starts = depth == 0
            at += 1
        elif char in "([{":
            depth += 1
            at += 1
        elif char in ")]}":
            depth -= 1
            at += 1
        else:
            piece = _PIECE(code, at)
            if piece is None:
                return None
            at = piece.end()
    if not out:
        return None
    return "".join(out) + code[copied:]


def _statement(whole, first):
    """A statement of IPython's as a call, or None if it is none. `first` is its first line."""
    text = whole.lstrip(" \t\f")
    indent = whole[: len(whole) - len(text)]
    asked = _HELP(first.strip())
    if asked:
        name = asked.group(2) or asked.group(3)
        magic = "%pinfo2 " if "??" in (asked.group(1), asked.group(4)) else "%pinfo "
        return indent + _call(magic + name)
    text = text.replace("\\\n", " ")
    call = _call(text)
    if call is not None:
        return indent + call
    assigned = _ASSIGNED(text)
    if assigned:
        target, command = assigned.groups()
        call = _call("!!" + command.lstrip("!") if command[0] == "!" else command)
        if call is not None:
            return f"{indent}{target} = {call}"
    return None


def _call(text):
    if text.startswith("!!"):
        return f"get_ipython().getoutput({text[2:].strip()!r})"
    if text.startswith("!"):
        return f"get_ipython().system({text[1:].strip()!r})"
    magic = _MAGIC(text)
    if magic:
        line = (magic.group(2) or "").strip()
        return f"get_ipython().run_line_magic({magic.group(1)!r}, {line!r})"
    return None
