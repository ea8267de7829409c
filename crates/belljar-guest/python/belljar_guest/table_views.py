"""Rows, statistics or the CSV of a table, sorted and filtered.

All of this runs in a process that ends with it (`table_reads`): it may take memory, and run the code
of the values' classes. Rows are positions, so a table is never copied whole.
"""

from belljar_guest import BUILTINS as __builtins__

import sys

from belljar_guest import tables
from belljar_guest.names import type_name
from belljar_guest.wire import to_json

_modules = sys.modules

_COLUMNS = 100
# Characters of all cells of a page; a cell has at least some, and at most as many as in a display.
_CHARACTERS, _LEAST, _MOST = 1_000_000, 80, 2000
_NAME = 300
_CSV_ROWS = 20_000
_INDEX = -1


class Unreadable(Exception):
    """Why there is nothing to show; its argument is a word of the protocol."""


def write_view(value, request, write):
    """Writes what the host asks for, as bytes, in pieces."""
    frame = _frame(value)
    rows = _matching(frame, request["filters"])
    wanted = request["wanted"]
    if wanted["kind"] == "statistics":
        write(to_json(_statistics(_column(frame, wanted["column"]).iloc[rows])))
        return
    if "sort" in request:
        rows = _sorted(frame, rows, **request["sort"])
    if wanted["kind"] == "rows":
        write(to_json(_page(frame, rows, wanted["offset"], wanted["limit"])))
    else:
        _write_csv(frame, rows, write)


def _frame(value):
    which = tables.kind(type(value))
    if which == "series":
        return value.to_frame(name="0" if value.name is None else value.name)
    if which == "frame":
        return value
    numpy = _modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray) and value.ndim == 2:
        try:
            import pandas
        except ImportError:
            raise Unreadable("not_a_table") from None
        return pandas.DataFrame(value)
    raise Unreadable("not_a_table")


def _column(frame, at):
    """A column, or the index, numbered from 0."""
    if at == _INDEX:
        return frame.index.to_flat_index().to_series().reset_index(drop=True)
    if not 0 <= at < frame.shape[1]:
        raise Unreadable("no_column")
    return frame.iloc[:, at].reset_index(drop=True)


def _matching(frame, filters):
    """The positions of the rows that pass all filters."""
    import numpy

    rows = numpy.arange(len(frame))
    for one in filters:
        column = _column(frame, one["column"]).iloc[rows]
        rows = rows[numpy.asarray(_passes(column, one["operator"], one["value"]), dtype=bool)]
    return rows


def _passes(column, operator, value):
    if operator == "contains":
        value = value.casefold()
        return [value in _text(one).casefold() for one in _members(column)]
    types = _modules["pandas"].api.types
    if types.is_bool_dtype(column.dtype):
        known = {"true": True, "false": False}
        if operator != "equals" or value.lower() not in known:
            raise Unreadable("not_comparable")
        value = known[value.lower()]
    elif types.is_numeric_dtype(column.dtype):
        value = _number(value)
        if value is None:
            raise Unreadable("not_comparable")
    elif types.is_datetime64_any_dtype(column.dtype) or types.is_timedelta64_dtype(column.dtype):
        value = _moment(column, value)
    else:
        return _passes_as_text(column, operator, value)
    if operator == "equals":
        mask = column == value
    else:
        mask = column < value if operator == "less" else column > value
    return mask.fillna(False)


def _number(value):
    for read in (int, float):
        try:
            return read(value)
        except ValueError:
            pass
    return None


def _moment(column, value):
    pandas = _modules["pandas"]
    try:
        if pandas.api.types.is_timedelta64_dtype(column.dtype):
            return pandas.Timedelta(value)
        moment = pandas.Timestamp(value)
        zone = getattr(column.dtype, "tz", None)
        if zone is not None:
            return moment.tz_localize(zone) if moment.tzinfo is None else moment
        if moment is not pandas.NaT and moment.tzinfo is None:
            return moment
    except (ValueError, TypeError, OverflowError):
        pass
    raise Unreadable("not_comparable")


def _passes_as_text(column, operator, value):
    """Texts are compared as texts; numbers among them as numbers, if the value is one."""
    number = _number(value)

    def compares(one):
        mine, other = one, number
        if number is None or type(one) not in (int, float):
            mine, other = _text(one), value
        if operator == "equals":
            return mine == other
        return mine < other if operator == "less" else mine > other

    return [one is not None and compares(one) for one in _members(column)]


def _members(column):
    """The values of a column, `None` for what is missing."""
    return [None if missing else one for one, missing in zip(column.tolist(), column.isna().tolist())]


def _text(value):
    if type(value) is str:
        return value
    try:
        return "" if value is None else str(value)
    except Exception:
        return f"<{type_name(value)[:_NAME]}>"  # as in a page


def _sorted(frame, rows, column, descending):
    values = _column(frame, column).iloc[rows].reset_index(drop=True)
    try:
        order = values.sort_values(ascending=not descending, kind="stable")
    except TypeError:
        # Values that have no order among each other: as texts.
        order = values.map(_text, na_action="ignore").sort_values(ascending=not descending, kind="stable")
    return rows[order.index.to_numpy()]


def _page(frame, rows, offset, limit):
    part = frame.iloc[rows[offset : offset + limit], :_COLUMNS]
    width = max(_LEAST, min(_MOST, _CHARACTERS // max(1, part.size)))
    # Column by column: rows of a mixed frame would be converted to one common type.
    by_column = [part.iloc[:, at].tolist() for at in range(part.shape[1])]
    dtypes = [str(part.dtypes.iloc[at])[:_NAME] for at in range(part.shape[1])]
    names = [str(_cell(str(name), _NAME)) for name in part.columns.tolist()]
    return {
        "columns": [{"name": name, "dtype": dtype} for name, dtype in zip(names, dtypes)],
        "index": [_cell(one, width) for one in part.index.tolist()],
        "rows": [[_cell(one, width) for one in row] for row in zip(*by_column)]
        if by_column
        else [[] for _ in range(len(part))],
        "matching_rows": len(rows),
        "total_rows": len(frame),
        "total_columns": frame.shape[1],
    }


def _cell(value, width):
    try:
        return tables.safe(value, width)
    except Exception:
        # Of a class whose code fails, or a number with more digits than Python writes.
        return f"<{type_name(value)[:_NAME]}>"


def _statistics(column):
    known = column.dropna()
    types = _modules["pandas"].api.types
    is_number = types.is_numeric_dtype(column.dtype) and not types.is_bool_dtype(column.dtype)
    return {
        "count": len(known),
        "missing": len(column) - len(known),
        "unique": _computed(known.nunique),
        "min": _computed(known.min),
        "max": _computed(known.max),
        "mean": _computed(known.mean) if is_number else None,
    }


def _computed(compute):
    """One figure; None where the values have none: without an order, or that can't be hashed."""
    try:
        value = compute()
    except (TypeError, ValueError):
        return None
    # A number of numpy as one of Python.
    if isinstance(value, _modules["numpy"].generic):
        value = value.item()
    return _cell(value, _MOST)


def _write_csv(frame, rows, write):
    # A numbering from 0 is no column of the program's.
    has_index = type(frame.index).__name__ != "RangeIndex" or frame.index.name is not None
    for at in range(0, max(1, len(rows)), _CSV_ROWS):
        text = frame.iloc[rows[at : at + _CSV_ROWS]].to_csv(header=at == 0, index=has_index)
        write(text.encode("utf-8", "backslashreplace"))
