"""Local directories as tar archives, and back."""

from __future__ import annotations

import os
import shutil
import tarfile
from pathlib import Path, PurePosixPath
from typing import IO

from ._errors import BelljarError


def pack(source: Path, to: IO[bytes]) -> None:
    """Writes all that is in a directory. A link to a file is that file; one to a directory may lead in a circle."""

    def refuse(error: OSError) -> None:
        raise error

    with tarfile.open(fileobj=to, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for directory, names, files in os.walk(source, onerror=refuse):
            names.sort()
            for path in (Path(directory, name) for name in sorted(names + files)):
                info = tarfile.TarInfo(path.relative_to(source).as_posix())
                if path.is_dir() and not path.is_symlink():
                    info.type = tarfile.DIRTYPE
                    archive.addfile(info)
                elif path.is_file():
                    with path.open("rb") as file:
                        found = os.fstat(file.fileno())
                        info.size, info.mode = found.st_size, found.st_mode & 0o777
                        archive.addfile(info, file)
                else:
                    raise ValueError(f"{path} is neither a file nor a directory")


def unpack(source: IO[bytes], to: Path) -> None:
    """Writes the files and directories of an archive into a directory. Local files are replaced; a link is replaced,
    too, and not followed."""
    with tarfile.open(fileobj=source, mode="r:") as archive:
        for info in archive:
            parts = PurePosixPath(info.name).parts
            # On Windows, more than `/` would lead elsewhere.
            if not parts or any(part == ".." or part != Path(part).name for part in parts):
                raise BelljarError("bad_answer", f"the archive has the path {info.name!r}")
            target = to.joinpath(*parts)
            if info.isdir():
                target.mkdir(parents=True, exist_ok=True)
                continue
            contents = archive.extractfile(info) if info.isreg() else None
            if contents is None:
                raise BelljarError("bad_answer", f"the archive has {info.name!r}, which is not a regular file")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            with contents, target.open("xb") as file:
                shutil.copyfileobj(contents, file)
            if info.mode & 0o100:
                target.chmod(target.stat().st_mode | 0o100)
