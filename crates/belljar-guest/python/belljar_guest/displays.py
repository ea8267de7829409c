"""Rich outputs: the representations of a value, each under a budget of time and size."""

from belljar_guest import BUILTINS as __builtins__

import binascii

from belljar_guest import plots_bridge, tables
from belljar_guest.errors import cut
from belljar_guest.names import lookup, qualname, type_name
from belljar_guest.state import STATE, Overtime, limited
from belljar_guest.wire import plain, send, to_json

_unbase64 = binascii.a2b_base64

_SECONDS = 3.0
_MAX_TEXT = 64 << 10
_MAX_MARKUP = 1 << 20
_MAX_PNG = 8 << 20
_MAX_DISPLAYS = 64
_MAX_BYTES = 24 << 20
_MAX_PARTS = 16

# In this order on the wire: the best representation is the last.
_METHODS = (
    ("_repr_latex_", "text/latex"),
    ("_repr_markdown_", "text/markdown"),
    ("_repr_json_", "application/json"),
    ("_repr_html_", "text/html"),
    ("_repr_svg_", "image/svg+xml"),
    ("_repr_png_", "image/png"),
)


def display(*objects):
    """Shows objects at once, each with all its representations."""
    for one in objects:
        show(one)


def show(value):
    """Sends the display of one value. It never raises, but for an interrupt of the cell."""
    if not STATE.cell:
        return  # a thread that outlived its cell
    if STATE.displays >= _MAX_DISPLAYS:
        STATE.note(f"displays after the first {_MAX_DISPLAYS}")
        return
    STATE.displays += 1
    parts = {}
    own_type = type_name(value)
    try:
        limited(_SECONDS, _represent, value, own_type, parts)
    except Overtime:
        STATE.note(f"the display of a {own_type} took longer than {_SECONDS:g} s")
        if "text/plain" not in parts:
            words = f"<{own_type} object: its repr took longer than {_SECONDS:g} s>"
            parts["text/plain"] = words.encode("utf-8", "backslashreplace")
    except KeyboardInterrupt:
        if STATE.interrupted:
            raise
    _send(parts)


def _send(parts):
    header = []
    blobs = []
    for mime, data in parts.items():
        if STATE.display_bytes + len(data) > _MAX_BYTES:
            STATE.note(f"displays of this cell beyond {_MAX_BYTES >> 20} MiB")
            continue
        STATE.display_bytes += len(data)
        header.append({"mime": mime, "len": len(data)})
        blobs.append(data)
    if header:
        cell = {"type": "display", "cell": STATE.cell, "nonce": STATE.nonce, "parts": header}
        send(cell, b"".join(blobs))


def _represent(value, own_type, parts):
    """Fills `parts` as far as it gets, so that running out of time keeps what is done."""
    parts["text/plain"] = _text(value, own_type)
    cls = type(value)
    if plots_bridge.is_figure(cls):
        _attempt(parts, own_type, "image/png", plots_bridge.png, value)
        return
    table = tables.kind(cls)
    if table:
        _attempt(parts, own_type, tables.MIME, tables.data, value, table)
        _attempt(parts, own_type, "text/html", tables.html, value, table)
        return
    bundle = lookup(cls, "_repr_mimebundle_")
    if bundle is not None:
        try:
            _take_bundle(parts, own_type, value._repr_mimebundle_())
        except _FAILURES as error:
            _failed(own_type, "_repr_mimebundle_", error)
    for method, mime in _METHODS:
        if mime not in parts and lookup(cls, method) is not None:
            _attempt(parts, own_type, mime, getattr, value, method)


# An interrupt and the end of the budget pass through; `SystemExit` from a repr does not.
_FAILURES = (Exception, SystemExit, GeneratorExit)


def _failed(own_type, what, error):
    if type(error) is not NotImplementedError:
        STATE.note(f"{what} of a {own_type} raised {qualname(type(error))}")


def _text(value, own_type):
    try:
        cls = type(value)
        if cls in (str, bytes) and len(value) > 2 * _MAX_TEXT:
            # Not worth escaping a gigabyte to show its two ends.
            half = _MAX_TEXT // 2
            text = repr(value[:half]) + "[...]" + repr(value[-half:])
        else:
            text = repr(value)
    except _FAILURES as error:
        text = f"<{own_type} object: its repr raised {qualname(type(error))}>"
    except KeyboardInterrupt:
        if STATE.interrupted:
            raise
        text = f"<{own_type} object: its repr raised KeyboardInterrupt>"
    if type(text) is not str:
        text = str.__str__(text)
    if len(text) <= _MAX_TEXT // 4:
        return text.encode("utf-8", "backslashreplace")
    # Characters first, so that a huge text is not encoded; then bytes, up to four a character.
    keep = _MAX_TEXT
    data = cut(text, keep).encode("utf-8", "backslashreplace")
    while len(data) > _MAX_TEXT:
        keep = keep * 3 // 4
        data = cut(text, keep).encode("utf-8", "backslashreplace")
    if keep < len(text):
        STATE.note(f"the middle of a text of {len(text)} characters")
    return data


def _attempt(parts, own_type, mime, make, *args):
    try:
        made = make(*args)
        if make is getattr:
            made = made()
        _take(parts, own_type, mime, made)
    except plots_bridge.TooLarge as error:
        STATE.note(str(error))
    except _FAILURES as error:
        _failed(own_type, mime, error)


def _take_bundle(parts, own_type, bundle):
    if type(bundle) is tuple and bundle:
        bundle = bundle[0]
    if not isinstance(bundle, dict):
        return
    for mime, content in list(bundle.items())[:_MAX_PARTS]:
        if type(mime) is str and len(mime) <= 100 and mime.isascii() and "/" in mime:
            if mime.isprintable() and " " not in mime:
                _take(parts, own_type, mime, content)


def _take(parts, own_type, mime, content):
    """Adds one representation in bytes, if it is what its MIME type says and fits."""
    if type(content) is tuple and len(content) == 2:
        content = content[0]  # data and metadata
    if content is None or len(parts) >= _MAX_PARTS:
        return
    binary = mime.startswith(("image/", "audio/", "video/")) and mime != "image/svg+xml"
    if isinstance(content, (bytes, bytearray)):
        data = bytes(content)
    elif isinstance(content, str):
        data = _unbase64(content) if binary else plain(str.__str__(content)).encode()
        if mime == "application/json" or mime.endswith("+json"):
            data = to_json(content)
    elif isinstance(content, (dict, list, int, float)) and "json" in mime:
        data = to_json(content)
    else:
        return
    if not binary and type(content) in (bytes, bytearray):
        data = data.decode("utf-8", "backslashreplace").encode()
    limit = _MAX_PNG if binary else _MAX_TEXT if mime == "text/plain" else _MAX_MARKUP
    if len(data) > limit:
        STATE.note(f"{mime} of a {own_type}: {len(data)} bytes are over the limit of {limit}")
        return
    parts[mime] = data
