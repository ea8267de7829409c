"""matplotlib figures as displays. Looks at matplotlib only if the user (or the template) loaded it;
the backend itself is `belljar_guest.plots`."""

from belljar_guest import BUILTINS as __builtins__

import io
import sys

_modules = sys.modules
_BytesIO = io.BytesIO
_MAX_PIXELS = 50_000_000


class TooLarge(Exception):
    """A figure with more pixels than a display may have."""


class _Shown:
    """Figures that this cell has shown by `display`, so that its end doesn't show them again."""

    __slots__ = ("ids",)

    def __init__(self):
        self.ids = set()


_shown = _Shown()


def is_figure(cls):
    figure = _modules.get("matplotlib.figure")
    try:
        return figure is not None and issubclass(cls, figure.Figure)
    except (AttributeError, TypeError):
        return False


def png(figure):
    _shown.ids.add(id(figure))
    width, height = figure.get_size_inches() * figure.dpi
    if not 0 < width * height <= _MAX_PIXELS:
        raise TooLarge(f"a figure of {width:.0f} x {height:.0f} pixels is over the limit")
    if not hasattr(figure.canvas, "print_png"):
        _modules["matplotlib.backends.backend_agg"].FigureCanvasAgg(figure)
    out = _BytesIO()
    figure.savefig(out, format="png")
    return out.getvalue()


def _managers():
    helpers = _modules.get("matplotlib._pylab_helpers")
    if helpers is None:
        return None
    gcf = getattr(helpers, "Gcf", None)
    return gcf if gcf is not None and gcf.figs else None


def has_open():
    """Whether pyplot has open figures; cheap, asked after every cell."""
    try:
        return _managers() is not None
    except Exception:
        return False


def show_all(show):
    """Shows the open figures and closes them."""
    gcf = _managers()
    if gcf is None:
        return
    try:
        for manager in list(gcf.get_all_fig_managers()):
            figure = manager.canvas.figure
            if id(figure) not in _shown.ids:
                show(figure)
    finally:
        close_all()


def close_all():
    _shown.ids.clear()
    gcf = _managers()
    if gcf is None:
        return
    try:
        gcf.destroy_all()
    except Exception:
        gcf.figs.clear()
