"""pandas tables as HTML and as data, limited in rows and columns."""

from belljar_guest import BUILTINS as __builtins__

import sys

from belljar_guest.wire import plain, to_json

MIME = "application/vnd.belljar.table+json"

_modules = sys.modules
_ROWS, _COLUMNS = 200, 50
_HTML_ROWS, _HTML_COLUMNS = 60, 30
_MAX_CELL = 2000


def kind(cls):
    """Which kind of table a class is: "frame", "series" or None."""
    pandas = _modules.get("pandas")
    if pandas is None:
        return None
    try:
        if issubclass(cls, pandas.DataFrame):
            return "frame"
        if issubclass(cls, pandas.Series):
            return "series"
    except (AttributeError, TypeError):
        pass
    return None


def html(value, which):
    if which == "series":
        value = value.to_frame()
    return value.to_html(max_rows=_HTML_ROWS, max_cols=_HTML_COLUMNS, show_dimensions=True)


def data(value, which):
    if which == "series":
        value = value.to_frame(name="0" if value.name is None else value.name)
    rows, columns = value.shape
    part = value.iloc[:_ROWS, :_COLUMNS]
    # Column by column: rows of a mixed frame would be converted to one common type.
    by_column = [part.iloc[:, at].tolist() for at in range(part.shape[1])]
    return to_json(
        {
            "columns": [
                {"name": _word(name, _MAX_CELL), "dtype": str(part.dtypes.iloc[at])}
                for at, name in enumerate(part.columns.tolist())
            ],
            "index": [safe(one) for one in part.index.tolist()],
            "rows": [[safe(one) for one in row] for row in zip(*by_column)]
            if by_column
            else [[] for _ in range(len(part))],
            "total_rows": int(rows),
            "total_columns": int(columns),
        }
    )


def _word(value, width):
    return plain(str(value))[:width]


def safe(value, width=_MAX_CELL):
    """The value as JSON can say it; a text has at most `width` characters."""
    cls = type(value)
    if cls is str:
        return plain(value[:width])[:width]
    if value is None or cls is bool:
        return value
    if cls is int:
        # Numbers beyond 2**53 lose digits in many readers.
        return value if -(2**53) <= value <= 2**53 else _word(value, width)
    if cls is float:
        return value if value - value == 0 else None
    if cls.__name__ in ("NaTType", "NAType"):
        return None
    return _word(value, width)
