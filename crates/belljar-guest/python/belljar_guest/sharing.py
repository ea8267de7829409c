"""Makes what the template has cheap to share with the sessions that are forked from it.

A fork copies each area of the template's memory, and one entry of the page tables for each page of
it; a session copies each page that it writes to. Reference counts are writes too. So the template
has few areas, puts its heap into huge pages, of which a fork copies one entry for 2 MiB, and makes
its objects immortal: nobody counts references to them any more.
"""

from belljar_guest import BUILTINS as __builtins__

import array
import collections
import ctypes
import gc
import itertools
import os
import re
import sys
import types

_MIB = 1 << 20
_HUGE_PAGE = 2 * _MIB
_MADV_NOHUGEPAGE = 15
_MADV_COLLAPSE = 25  # Linux 6.1
_MOST_ADDRESSES = 8192  # in one read
_POOL = 16 << 10  # what the interpreter's heap gives to objects of one size at a time
_MOST_FILLED = 100_000

# Reference counts of these versions are 32 bits wide, and all ones mean immortal (PEP 683). Other
# versions differ: 3.11 has no such objects, and 3.14 another layout.
_IMMORTAL = (
    sys.implementation.name == "cpython"
    and sys.version_info[:2] in ((3, 12), (3, 13))
    and sys.byteorder == "little"
    and sys.maxsize > 1 << 32
    and getattr(sys, "_is_gil_enabled", lambda: True)()
)

_READ_AND_EXECUTE, _READ_AND_WRITE = 5, 3

_libc = ctypes.CDLL(None, use_errno=True)
_mprotect = _libc.mprotect
_mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_madvise = _libc.madvise
_madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_memset = ctypes.memset
# Without what Python does in a child: that makes objects, and puts them where old ones were.
_plain_fork = ctypes.PyDLL(None).fork


def reserve(mebibytes):
    """Makes the interpreter's heap one range, before the imports fill it; returns what holds it.

    The interpreter maps 1 MiB at a time, between the libraries that imports map. Huge pages need
    2 MiB that are aligned. One object in each such part holds it until the imports are done.
    """
    size = 440  # of those that the interpreter puts into its own heap
    taken = [None] * (mebibytes * _MIB // size)
    holders = {}
    for index in range(len(taken)):
        block = taken[index] = bytes(size)
        holders.setdefault(id(block) // _MIB, block)
    return list(holders.values())


def merge_areas():
    """Makes two areas of each library, which has four or five: what is only read joins the code beside
    it, or the data behind it. Forks copy, and ends remove, half as many areas then.

    Sessions gain no right by it: they may map memory with any rights, and pages that they write to
    are their own.
    """
    areas = [(0, 0, "", None)]
    with open("/proc/self/maps") as file:
        for line in file.read().splitlines():
            span, rights, offset, device, inode, *_ = line.split(maxsplit=5)
            start, end = (int(number, 16) for number in span.split("-"))
            # Of areas that follow each other in a file as they do in memory, this is the same.
            place = (device, int(inode), int(offset, 16) - start)
            areas.append((start, end, rights, place))
    for before, (start, end, rights, place), after in zip(areas, areas[1:], areas[2:]):
        if rights != "r--p" or not place[1]:
            continue
        if (after[0], *after[2:]) == (end, "rw-p", place):
            _mprotect(start, end - start, _READ_AND_WRITE)
        elif before[1:] == (start, "r-xp", place) or (after[0], *after[2:]) == (end, "r-xp", place):
            _mprotect(start, end - start, _READ_AND_EXECUTE)


def share():
    """When nothing else is to be done: once, since it takes most of a second."""
    if _IMMORTAL:
        _make_immortal()
        _filling.extend(_fill_heap())
    _use_huge_pages()


_filling = []  # never given back


def _fill_heap():
    """Fills what is free between the template's objects. The objects of a session are then next to
    each other, in fewer pages, none of which must be copied."""
    for size in range(48, 513, 16):  # smaller ones are those of this loop
        # A new part of the heap is filled from its start to its end.
        in_order = last = 0
        for _ in range(_MOST_FILLED):
            block = bytes(size - 40)
            address = id(block)
            in_order = in_order + 1 if address - last == size or address % _POOL < 64 else 0
            last = address
            yield block
            if in_order > 2 * _POOL // size:
                break


def _make_immortal():
    """Objects of the template are not given back, whatever a session does, so nothing is lost if no
    one counts their references.

    A child finds them: that takes as much memory as they do, and addresses are the same there. None
    of them refers to an object that the child has made.
    """
    addresses, found = os.pipe2(os.O_CLOEXEC)
    child = _plain_fork()
    if child == 0:
        try:
            _write_all(found, _mortal_addresses())
        finally:
            os._exit(0)
    os.close(found)
    if child < 0:
        # `waitpid` would take that number for any child, a session too.
        os.close(addresses)
        return
    ones, width = itertools.repeat(0xFF), itertools.repeat(4)
    try:
        while block := _read_addresses(addresses):
            collections.deque(map(_memset, block, ones, width), maxlen=0)
    finally:
        os.close(addresses)
        os.waitpid(child, 0)


def _read_addresses(pipe):
    """The next ones, whole."""
    data = b""
    while len(data) % 8 or not data:
        more = os.read(pipe, _MOST_ADDRESSES * 8 - len(data))
        if not more:
            break
        data += more
    return array.array("Q", data[: len(data) // 8 * 8])


def _mortal_addresses():
    """Of all objects that can be reached from those that the collector knows."""
    gc.unfreeze()
    found = gc.get_objects()
    seen = set(map(id, found))
    kept = []
    while found:
        kept += found
        reached = []
        for start in range(0, len(found), 1000):
            part = found[start : start + 1000]
            reached += gc.get_referents(*part)
            for thing in part:
                if type(thing) is types.CodeType:
                    # The collector doesn't look into code.
                    reached += (
                        thing.co_consts,
                        thing.co_names,
                        thing.co_filename,
                        thing.co_name,
                        thing.co_qualname,
                        thing.co_linetable,
                        thing.co_exceptiontable,
                        *thing.co_varnames,
                        *thing.co_cellvars,
                        *thing.co_freevars,
                    )
        found = []
        for thing in reached:
            if id(thing) not in seen:
                seen.add(id(thing))
                found.append(thing)
    return array.array("Q", (id(thing) for thing in kept if sys.getrefcount(thing) < 1 << 30))


def _write_all(pipe, addresses):
    data = memoryview(addresses).cast("B")
    while data:
        data = data[os.write(pipe, data) :]


def _use_huge_pages():
    """Where the kernel can; elsewhere pages stay small, and forks as they were."""
    for start, end in _heaps():
        first = -(-start // _HUGE_PAGE) * _HUGE_PAGE
        for address in range(first, end - _HUGE_PAGE + 1, _HUGE_PAGE):
            if _madvise(address, _HUGE_PAGE, _MADV_COLLAPSE) == 0:
                # Once is enough: the kernel must not do it in a session, where it would copy all.
                _madvise(address, _HUGE_PAGE, _MADV_NOHUGEPAGE)


def _heaps():
    """Ranges of private memory that is no file's, most of it in use."""
    heaps = []
    with open("/proc/self/smaps") as file:
        for line in file:
            head = re.match(r"([0-9a-f]+)-([0-9a-f]+) rw-p \S+ 00:00 0\s*(\[heap\])?\n", line)
            if head:
                start, end = (int(number, 16) for number in head.group(1, 2))
            elif line[0] in "0123456789abcdef":
                start = end = 0
            elif line.startswith("Rss:") and int(line.split()[1]) * 2048 > end - start > 0:
                heaps.append((start, end))
    return heaps
