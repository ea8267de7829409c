"""Makes a wheel, or a source distribution, as a hostile author would: argv names a JSON file."""

import io
import json
import sys
import tarfile
import warnings
import zipfile

warnings.simplefilter("ignore")  # of names that come twice
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
    info = spec.get("info", f"{name}-{version}.dist-info")
    files[f"{info}/METADATA"] = metadata
    files[f"{info}/WHEEL"] = (
        "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    record = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    files[f"{info}/RECORD"] = spec.get("record", record)
    wheel = f"{out}/{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in files.items():
            archive.writestr(path, text)
        for path, target in spec.get("links", {}).items():
            member = zipfile.ZipInfo(path)
            member.external_attr = 0o120777 << 16
            archive.writestr(member, target)
        # Any number of times, with any mode.
        for path, text, mode in spec.get("entries", []):
            member = zipfile.ZipInfo(path)
            member.external_attr = mode << 16
            archive.writestr(member, text)
        for path, megabytes in spec.get("zeros", {}).items():
            with archive.open(path, "w", force_zip64=True) as member:
                for _ in range(megabytes):
                    member.write(bytes(1 << 20))
    # Sizes that are not so: what is larger says that it has ten bytes.
    if "shrink" in spec:
        data = bytearray(open(wheel, "rb").read())
        path = spec["shrink"].encode()
        for signature, size, start in ((b"PK\x01\x02", 24, 46), (b"PK\x03\x04", 22, 30)):
            at = -1
            while (at := data.find(signature, at + 1)) >= 0:
                if data[at + start : at + start + len(path)] == path:
                    data[at + size : at + size + 4] = (10).to_bytes(4, "little")
        open(wheel, "wb").write(data)
    # As many names for the same bytes.
    if "overlap" in spec:
        data = bytearray(open(wheel, "rb").read())
        end = data.rfind(b"PK\x05\x06")
        first = int.from_bytes(data[end + 16 : end + 20], "little")
        zeros = spec["overlap"].encode()
        at = first
        while data[at + 46 : at + 46 + len(zeros)] != zeros:
            at = data.find(b"PK\x01\x02", at + 1)
        entry = bytes(data[at : at + 46 + len(zeros) + int.from_bytes(data[at + 30 : at + 32], "little")])
        more = b"".join(entry.replace(zeros, zeros[:-3] + b"%03d" % number) for number in range(200))
        directory = bytes(data[first:end]) + more
        tail = bytearray(data[end:])
        count = int.from_bytes(tail[10:12], "little") + 200
        tail[8:12] = count.to_bytes(2, "little") * 2
        tail[12:16] = len(directory).to_bytes(4, "little")
        open(wheel, "wb").write(bytes(data[:first]) + directory + bytes(tail))
