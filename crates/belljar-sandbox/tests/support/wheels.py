"""Makes a wheel, or a source distribution, as a hostile author would: argv names a JSON file."""

import io
import json
import sys
import tarfile
import zipfile

with open(sys.argv[1]) as file:
    spec = json.load(file)
name, version, out = spec["name"], spec["version"], spec["out"]
metadata = f"Metadata-Version: 2.1\nName: {spec.get('claims', name)}\nVersion: {version}\n"
metadata += "".join(f"Requires-Dist: {one}\n" for one in spec.get("requires", []))
files = spec.get("files", {})
if spec.get("source"):
    with tarfile.open(f"{out}/{name}-{version}.tar.gz", "w:gz") as archive:
        for path, text in {"PKG-INFO": metadata, **files}.items():
            member = tarfile.TarInfo(f"{name}-{version}/{path}")
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
else:
    info = f"{name}-{version}.dist-info"
    files[f"{info}/METADATA"] = metadata
    files[f"{info}/WHEEL"] = (
        "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(f"{out}/{name}-{version}-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in files.items():
            archive.writestr(path, text)
        for path, target in spec.get("links", {}).items():
            member = zipfile.ZipInfo(path)
            member.external_attr = 0o120777 << 16
            archive.writestr(member, target)
        for path, megabytes in spec.get("zeros", {}).items():
            with archive.open(path, "w", force_zip64=True) as member:
                for _ in range(megabytes):
                    member.write(bytes(1 << 20))
