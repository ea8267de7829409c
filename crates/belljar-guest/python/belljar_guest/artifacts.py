"""Which files of the workspace a cell created or changed."""

from belljar_guest import BUILTINS as __builtins__

import os
import time

_scandir = os.scandir
_stat = os.stat
_monotonic = time.monotonic
_clock_ns = time.clock_gettime_ns
# The clock that the kernel stamps files with; Python has no name for it.
_REALTIME_COARSE = 5

_TICK_NS = 20_000_000

_MAX_ENTRIES = 20_000
_MAX_SECONDS = 0.5
_MAX_LISTED = 1_000


class Workspace:
    """Remembers the files seen after the last cell."""

    def __init__(self, root):
        self.root = root
        self._files = {}
        # Directory -> time of its last change: files that appear between cells change it.
        self._folders = {}
        self._start = 0
        self._cut = False

    def before(self):
        """At the start of a cell: files that came between cells are not the cell's."""
        self._start = _clock_ns(_REALTIME_COARSE)
        if not self._folders or self._folders_changed():
            self._scan(None)
            self._start = _clock_ns(_REALTIME_COARSE)

    def _folders_changed(self):
        """Whether files may have appeared or gone in the folders known so far."""
        for folder, changed in self._folders.items():
            # A second change within one tick of the clock leaves no trace.
            if changed + _TICK_NS > self._start:
                return True
            try:
                if _stat(folder).st_mtime_ns != changed:
                    return True
            except OSError:
                return True
        return False

    def after(self, drop):
        """The artifacts of the cell that ended."""
        found = []
        if not self._files and len(self._folders) == 1 and not self._folders_changed():
            return found  # it was empty and nothing was added
        self._scan(found)
        if len(found) > _MAX_LISTED:
            drop(f"{len(found) - _MAX_LISTED} more files were created or changed")
            del found[_MAX_LISTED:]
        if self._cut:
            drop("the workspace has too many files to look for changes in all of them")
        return found

    def _scan(self, found):
        files = {}
        folders = {}
        known = self._files
        start = self._start
        entries = 0
        self._cut = False
        deadline = None
        stack = [(self.root, "")]
        while stack:
            folder, prefix = stack.pop()
            try:
                # Before reading it, so that a change during the scan is seen next time.
                folders[folder] = _stat(folder).st_mtime_ns
                listing = _scandir(folder)
            except OSError:
                continue
            with listing:
                for entry in listing:
                    entries += 1
                    if deadline is None:
                        deadline = _monotonic() + _MAX_SECONDS
                    if entries > _MAX_ENTRIES or (not entries & 63 and _monotonic() > deadline):
                        self._cut = True
                        stack.clear()
                        break
                    try:
                        if entry.is_dir(follow_symlinks=False):
                            if entry.name != "__pycache__":
                                stack.append((entry.path, prefix + entry.name + "/"))
                            continue
                        if not entry.is_file(follow_symlinks=False):
                            continue
                        stat = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue
                    path = prefix + entry.name
                    mark = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
                    files[path] = mark
                    if found is not None and stat.st_ctime_ns >= start:
                        old = known.get(path)
                        if old != mark:
                            found.append(
                                {
                                    "path": path,
                                    "size": stat.st_size,
                                    "change": "created" if old is None else "changed",
                                }
                            )
        if self._cut:
            # What was not reached is not gone.
            known.update(files)
        else:
            self._files = files
        self._folders = folders
