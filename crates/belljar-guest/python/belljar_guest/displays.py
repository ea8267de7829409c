"""Rich outputs: the representations of a value, each under a budget of time and size."""

from belljar_guest import BUILTINS as __builtins__

import binascii
import contextlib
import os

from belljar_guest import plots_bridge, tables
from belljar_guest.errors import cut
from belljar_guest.names import lookup, qualname, type_name
from belljar_guest.state import STATE, Overtime, limited
from belljar_guest.streams import drain
from belljar_guest.wire import plain, send, to_json, wait_until_read

_unbase64 = binascii.a2b_base64
_urandom = os.urandom

_SECONDS = 3.0
_MAX_TEXT = 64 << 10
_MAX_MARKUP = 1 << 20
_MAX_PNG = 8 << 20
_MAX_DISPLAYS = 64
_MAX_BYTES = 24 << 20
_MAX_PARTS = 16
_MAX_ID = 100
_MAX_METADATA = 4 << 10
# Of a cell, with those that were replaced or taken back.
_MAX_CHANGES = 5_000
_MAX_SENT = 128 << 20

# In this order on the wire: the best representation is the last.
_METHODS = (
    ("_repr_pdf_", "application/pdf"),
    ("_repr_latex_", "text/latex"),
    ("_repr_markdown_", "text/markdown"),
    ("_repr_json_", "application/json"),
    ("_repr_html_", "text/html"),
    ("_repr_svg_", "image/svg+xml"),
    ("_repr_jpeg_", "image/jpeg"),
    ("_repr_png_", "image/png"),
)


class Parts(dict):
    """The representations of one value by MIME type, in bytes; and what was said about each."""

    def __init__(self):
        self.metadata = {}


class DisplayHandle:
    """A display that can be changed."""

    def __init__(self, display_id=None):
        self.display_id = display_id or _urandom(16).hex()

    def display(self, value, **options):
        display(value, display_id=self.display_id, **options)

    def update(self, value, **options):
        update_display(value, display_id=self.display_id, **options)

    def __repr__(self):
        return f"<DisplayHandle display_id={self.display_id}>"


def display(
    *objects,
    display_id=None,
    metadata=None,
    raw=False,
    update=False,
    clear=False,
    include=None,
    exclude=None,
    transient=None,
):
    """Shows objects at once, each with all its representations. With `display_id` (True: a new one) a
    handle is returned, by which the display can be changed."""
    handle = None
    if display_id is not None:
        handle = DisplayHandle(None if display_id is True else str(display_id))
        display_id = handle.display_id
    elif update:
        raise TypeError("display() needs a display_id to update")
    if clear:
        clear_output(wait=True)
    for one in objects:
        if raw:
            publish(one, metadata, display_id, update)
        else:
            show(one, False, display_id, update, metadata, include, exclude)
    return handle


def cite(value, label):
    """Prints a value with what it is. A run takes that as the meaning of the value in its answer, where the code agrees."""
    print(f"{' '.join(str(label).split())}: {value}")


def update_display(value, *, display_id, **options):
    """Changes the display with this id."""
    display(value, display_id=display_id, update=True, **options)


def clear_output(wait=False):
    """Takes back what the cell has shown so far; with `wait`, once there is something new to show."""
    if STATE.cell and not STATE.captures and _may_change(0):
        # What was printed before is read before, and what is printed after is read after. Displays are read before,
        # too: when the host takes one, it reads what was printed until then.
        drain()
        wait_until_read(1)
        send({"type": "clear", "cell": STATE.cell, "nonce": STATE.nonce, "wait": bool(wait)})
        wait_until_read(1)
        STATE.displays = STATE.display_bytes = 0
        STATE.shown.clear()


def publish(data, metadata=None, display_id=None, update=False):
    """Shows representations that are there already."""
    parts = Parts()
    _take_bundle(parts, "display", (data, metadata))
    _send(parts, False, display_id, update)


def formatted(value, include=None, exclude=None):
    """The representations of a value, and their metadata."""
    if _shows_itself(value):
        return {}, {}
    parts = _parts(value, include, exclude)
    return dict(parts), parts.metadata


def show(
    value,
    is_result=False,
    display_id=None,
    update=False,
    metadata=None,
    include=None,
    exclude=None,
):
    """Sends the display of one value, the last one of the cell if `is_result`. It never raises, but for an interrupt of the cell."""
    if not STATE.cell:
        return  # a thread that outlived its cell
    if not update and STATE.displays >= _MAX_DISPLAYS:
        STATE.note(f"displays after the first {_MAX_DISPLAYS}")
        return
    if display_id is None and _shows_itself(value):
        return
    parts = _parts(value, include, exclude)
    if metadata:
        parts.metadata.update(metadata)
    _send(parts, is_result, display_id, update)


class Output:
    """A display that was captured."""

    def __init__(self, parts):
        self._parts = parts
        self.metadata = parts.metadata

    @property
    def data(self):
        return {
            mime: data if _is_binary(mime) else data.decode() for mime, data in self._parts.items()
        }

    def display(self):
        _send(self._parts, False, None, False)

    def _repr_mimebundle_(self, include=None, exclude=None):
        return self.data, self.metadata


@contextlib.contextmanager
def capturing(outputs):
    STATE.captures.append(outputs)
    try:
        yield
    finally:
        STATE.captures.pop()


def _shows_itself(value):
    """Whether a value has its own way to be shown, and took it."""
    if lookup(type(value), "_ipython_display_") is None:
        return False
    try:
        value._ipython_display_()
        return True
    except _FAILURES as error:
        _failed(type_name(value), "_ipython_display_", error)
        return False


def _parts(value, include, exclude):
    parts = Parts()
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
    for mime in list(parts):
        if include and mime not in include or exclude and mime in exclude:
            del parts[mime]
    return parts


def _may_change(size):
    STATE.changes += 1
    STATE.sent_bytes += size
    if STATE.changes <= _MAX_CHANGES and STATE.sent_bytes <= _MAX_SENT:
        return True
    STATE.note(f"displays and changes of them after {_MAX_CHANGES}, or {_MAX_SENT >> 20} MiB")
    return False


def _send(parts, is_result, display_id, update):
    if not STATE.cell:
        return
    if STATE.captures:
        STATE.captures[-1].append(Output(parts))
        return
    if not _may_change(sum(map(len, parts.values()))):
        return
    # One that replaces another is no further one.
    before = STATE.shown.get(display_id) if update else None
    if before is not None:
        STATE.display_bytes -= before
    elif STATE.displays >= _MAX_DISPLAYS:
        STATE.note(f"displays after the first {_MAX_DISPLAYS}")
        return
    else:
        STATE.displays += 1
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
        if is_result:
            cell["value"] = True
        if display_id is not None:
            STATE.shown[display_id] = sum(map(len, blobs))
            cell["id"] = plain(display_id[:_MAX_ID])
            if update:
                cell["update"] = True
        if parts.metadata:
            try:
                # As text: the host reads it once it knows how long it is.
                metadata = to_json(parts.metadata).decode()
                if len(metadata) > _MAX_METADATA:
                    raise ValueError
                cell["metadata"] = metadata
            except (TypeError, ValueError, RecursionError):
                STATE.note("metadata of a display that is no JSON, or too long")
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
        if type(value) in (str, bytes) and len(value) > 2 * _MAX_TEXT:
            return _ends(value)
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


def _ends(value):
    """Both ends of a long text or bytes: it is not worth escaping a gigabyte to show them."""
    kept = _MAX_TEXT // 2
    what = "characters" if type(value) is str else "bytes"
    quote = 1 if type(value) is str else 2  # b'
    data = None
    while data is None or len(data) > _MAX_TEXT:
        kept = kept * 3 // 4
        mark = f"\n[... {len(value) - 2 * kept} {what} left out ...]\n"
        text = repr(value[:kept])[:-1] + mark + repr(value[-kept:])[quote:]
        data = text.encode("utf-8", "backslashreplace")
    STATE.note(f"the middle of a text of {len(value)} {what}")
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
        if len(bundle) > 1 and type(bundle[1]) is dict:
            parts.metadata.update(bundle[1])
        bundle = bundle[0]
    if not isinstance(bundle, dict):
        return
    for mime, content in list(bundle.items())[:_MAX_PARTS]:
        if type(mime) is str and len(mime) <= 100 and mime.isascii() and "/" in mime:
            if mime.isprintable() and " " not in mime:
                _take(parts, own_type, mime, content)


def _is_binary(mime):
    if mime == "application/pdf":
        return True
    return mime.startswith(("image/", "audio/", "video/")) and mime != "image/svg+xml"


def _take(parts, own_type, mime, content):
    """Adds one representation in bytes, if it is what its MIME type says and fits."""
    if type(content) is tuple and len(content) == 2:
        content, metadata = content
        if type(metadata) is dict and metadata:
            parts.metadata[mime] = metadata
    if content is None or len(parts) >= _MAX_PARTS:
        return
    binary = _is_binary(mime)
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
