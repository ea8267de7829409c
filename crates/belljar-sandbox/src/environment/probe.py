# What an interpreter says about itself, as one line of JSON after a mark. Run with `python -I -c`;
# the modules to look for are the arguments. Works on every Python 3, so that an old one can be
# named in the error instead of failing with a syntax error.
import json
import os
import sys


def extra_directories():
    """Directories of shared libraries, and of packages that are installed where they are edited."""
    # These extension modules are the ones that bind libraries from outside of Python.
    for name in ("ssl", "ctypes", "sqlite3", "lzma", "bz2", "zlib"):
        try:
            __import__(name)
        except Exception:
            pass
    libraries = set()
    with open("/proc/self/maps", errors="surrogateescape") as maps:
        for line in maps:
            fields = line.rstrip("\n").split(None, 5)
            if len(fields) == 6 and fields[5].startswith("/") and ".so" in os.path.basename(fields[5]):
                libraries.add(os.path.dirname(fields[5]))
    return sorted(libraries)


def packages():
    from importlib.metadata import distributions
    from urllib.parse import unquote, urlparse

    found, editable = {}, set()
    for distribution in distributions():
        try:
            name, version = distribution.metadata["Name"], distribution.version
            if name and version:
                found.setdefault(name, version)  # the first on sys.path is the one imported
            origin = json.loads(distribution.read_text("direct_url.json") or "{}")
            if origin.get("dir_info", {}).get("editable"):
                editable.add(unquote(urlparse(origin["url"]).path))
        except Exception:
            continue  # a broken package is as good as none
    return sorted(found.items()), sorted(editable)


def main():
    report = {
        "implementation": sys.implementation.name,
        "version": "%d.%d.%d" % sys.version_info[:3],
        "executable": sys.executable or "",
        "prefixes": [sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix],
        "path": [entry for entry in sys.path if entry],
        "libraries": [],
        "packages": [],
        "editable": [],
        "modules": [],
    }
    if sys.implementation.name == "cpython" and sys.version_info >= (3, 10):
        from importlib.util import find_spec

        report["packages"], report["editable"] = packages()
        for module in sys.argv[1:]:
            # Only the first name: looking for a submodule would import its parent.
            try:
                if find_spec(module.partition(".")[0]) is not None:
                    report["modules"].append(module)
            except Exception:
                pass
        report["libraries"] = extra_directories()
    sys.stdout.write("\nbelljar-probe:" + json.dumps(report) + "\n")


main()
