"""What a name is (signature, documentation, source), and whether a cell is whole."""

from belljar_guest import BUILTINS as __builtins__

import ast
import codeop
import inspect
import re

from belljar_guest.complete import MISSING, value_of
from belljar_guest.errors import cut
from belljar_guest.names import type_name
from belljar_guest.rewrite import lines_of, rewrite
from belljar_guest.state import Overtime, limited
from belljar_guest.wire import plain

_signature = inspect.signature
_getdoc = inspect.getdoc
_getsource = inspect.getsource
_compile = codeop.CommandCompiler()
_compile.compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_parse = compile
_TREE = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_NAME_BEFORE = re.compile(r"((?:[^\W\d]\w*\.)*[^\W\d]\w*)\Z").search
_NAME_AFTER = re.compile(r"\w*").match
# The call that the cursor is in the arguments of.
_CALL_BEFORE = re.compile(r"((?:[^\W\d]\w*\.)*[^\W\d]\w*)\([^()]*\Z").search
_PART = re.compile(r"\.([^\W\d]\w*)|\[(-?\d+)\]").match
_MAX = 64 << 10
_SECONDS = 1.0


def inspect_at(namespace, code, cursor, detail):
    """The description of the name at a byte offset, or None."""
    data = code.encode("utf-8", "surrogatepass")
    before = data[: max(0, cursor)].decode("utf-8", "ignore")
    after = data[max(0, cursor) :].decode("utf-8", "ignore")
    before = before[-1000:] + _NAME_AFTER(after[:1000]).group()
    for found in (_NAME_BEFORE(before), _CALL_BEFORE(before)):
        text = found and describe_name(namespace, found.group(1), detail)
        if text:
            return text
    return None


def describe_name(namespace, name, detail):
    """What a name stands for, in lines; None if nothing, or nothing that can be told."""
    try:
        return limited(_SECONDS, _describe, namespace, name, detail)
    except (Exception, Overtime, SystemExit):
        return None


def _describe(namespace, name, detail):
    path = name.split("[", 1)[0].split(".")
    value = value_of(namespace, path)
    rest = name[len(".".join(path)) :]
    while rest and value is not MISSING:
        part = _PART(rest)
        value = value[int(part.group(2))] if part.group(2) else getattr(value, part.group(1))
        rest = rest[part.end() :]
    if value is MISSING:
        return None
    lines = []
    if callable(value):
        try:
            lines.append(f"Signature: {name}{_signature(value)}")
        except (TypeError, ValueError):
            pass
    lines.append(f"Type:      {type_name(value)}")
    if not callable(value) and not inspect.ismodule(value):
        lines.append(f"Value:     {cut(repr(value), 500)}")
    source = None
    if detail:
        try:
            source = _getsource(value)
        except (OSError, TypeError):
            pass
    if source:
        lines.append(f"Source:\n{source.rstrip()}")
    else:
        documentation = _getdoc(value)
        lines.append(f"Docstring:\n{documentation}" if documentation else "Docstring: <none>")
    return plain(cut("\n".join(lines), _MAX))


def completeness(code):
    """`complete`, `invalid`, or `incomplete` with the indentation of the next line."""
    code = lines_of(code)
    last = code.rsplit("\n", 1)[-1]
    if code.lstrip().startswith("%%"):
        ended = "\n" in code.strip() and not last.strip()
        return ("complete", "") if ended else ("incomplete", "")
    try:
        python = rewrite(code) or code
        if _compile(python, "<input>", "exec") is not None and not _is_in_block(python):
            return "complete", ""
    except (Exception, SystemExit):
        return "invalid", ""  # by the compiler, or by code that has replaced its parts
    indent = last[: len(last) - len(last.lstrip())]
    return "incomplete", indent + "    " if last.rstrip().endswith(":") else indent


def _is_in_block(code):
    """Whether the last line is one of a block, which an empty line would end."""
    if not code.rsplit("\n", 1)[-1].strip():
        return False
    statements = _parse(code, "<input>", "exec", _TREE, True).body
    last = statements and statements[-1]
    return hasattr(last, "body") and last.end_lineno > last.lineno
