"""Imports and first uses, done once in the template so that no session pays for them."""

from belljar_guest import BUILTINS as __builtins__

import gc
import importlib
import io
import sys
import time

from belljar_guest import blas, complete, displays, errors, manifest, reseed, session, tables


def warm(preload, fonts, threads=None):
    """Loads the preload list; returns the failures and the time each import took."""
    failed = {}
    import_ms = {}
    for name in preload:
        start = time.perf_counter()
        try:
            importlib.import_module(name)
        except BaseException as error:
            failed[name] = f"{type(error).__name__}: {error}"[:2000]
        import_ms[name] = round((time.perf_counter() - start) * 1000)
    for name, step in (
        ("python", _python),
        ("numpy", _numpy),
        ("pandas", _pandas),
        ("matplotlib.pyplot", lambda: _matplotlib(fonts)),
    ):
        try:
            step()
        except Exception as error:
            failed.setdefault(name, f"in its first use: {type(error).__name__}: {error}"[:2000])
    session.prepare()
    reseed.prepare()
    blas.prepare(threads)
    gc.collect()
    gc.disable()
    gc.freeze()
    return failed, import_ms


def _python():
    """What every first cell and first error would load or build."""
    tree = compile("x = 1\nf'{x}'", "<warm>", "exec", 1024)
    compile(tree, "<warm>", "exec")
    try:
        raise ValueError("warm")
    except ValueError as error:
        errors.describe(error, "<warm>")
    try:
        compile("x = = 1", "<warm>", "exec")
    except SyntaxError as error:
        errors.describe(error, "<warm>", compiling=True)
    complete.complete({}, "pri", 3)
    displays._represent([1, "a", 2.5], "list", {})


def _numpy():
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return
    numpy.random.normal(size=3)
    numpy.random.default_rng(0).normal(size=3)
    repr(numpy.linspace(0.0, 1.0, 5).reshape(5, 1) @ numpy.ones((1, 2)))
    manifest.learn_libraries()


def _pandas():
    pandas = sys.modules.get("pandas")
    if pandas is None:
        return
    frame = pandas.DataFrame(
        {"a": [1, 2, 2], "b": [0.5, None, 1.5], "c": ["x", "y", "z"], "d": pandas.Timestamp(0)}
    )
    repr(frame)
    tables.html(frame, "frame")
    tables.data(frame, "frame")
    frame.groupby("a")["b"].mean()
    frame.describe()
    pandas.read_csv(io.StringIO("a,b\n1,x\n2,y\n"))
    manifest.learn_libraries()


def _matplotlib(fonts):
    if "matplotlib" not in sys.modules:
        return
    import matplotlib
    from matplotlib import font_manager

    names = []
    for path in fonts:
        font_manager.fontManager.addfont(path)
        name = font_manager.FontProperties(fname=path).get_name()
        if name not in names:
            names.append(name)
    family = ["DejaVu Sans", *names]
    for rc in (matplotlib.rcParams, matplotlib.rcParamsDefault):
        # The defaults too: a style that is switched on and off goes back to them.
        rc["font.family"] = family
        rc["font.sans-serif"] = family
        rc["axes.unicode_minus"] = False
    if "matplotlib.pyplot" not in sys.modules:
        return
    from matplotlib import pyplot

    figure, axes = pyplot.subplots()
    axes.plot([0, 1], [1, 0], label="warm")
    axes.set_title("warm")
    axes.legend()
    figure.savefig(io.BytesIO(), format="png")
    pyplot.close("all")
    # Fonts in this cache hold open files, which a session doesn't inherit.
    font_manager._get_font.cache_clear()


def status():
    """Facts about this process from the kernel: number of threads, bytes of private data."""
    threads = data = 0
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith("Threads:"):
                threads = int(line.split()[1])
            elif line.startswith("VmData:"):
                data = int(line.split()[1]) * 1024
    return threads, data
