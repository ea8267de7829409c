"""The matplotlib backend of a session (`MPLBACKEND=module://belljar_guest.plots`).

Figures are drawn by Agg and become displays: at `plt.show()`, or when the cell ends.
"""

from matplotlib.backend_bases import FigureManagerBase, _Backend
from matplotlib.backends.backend_agg import FigureCanvasAgg

from belljar_guest import displays, plots_bridge


def _show_all():
    plots_bridge.show_all(displays.show)


class FigureManagerBelljar(FigureManagerBase):
    """A window that is shown by sending a picture."""

    def show(self):
        # `fig.show()`
        displays.show(self.canvas.figure)

    @classmethod
    def pyplot_show(cls, *, block=None):
        _show_all()


class FigureCanvasBelljar(FigureCanvasAgg):
    manager_class = FigureManagerBelljar


@_Backend.export
class _BackendBelljar(_Backend):
    FigureCanvas = FigureCanvasBelljar
    FigureManager = FigureManagerBelljar

    @staticmethod
    def show(*args, **kwargs):
        _show_all()
