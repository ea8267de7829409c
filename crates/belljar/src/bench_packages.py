"""Makes three wheels of some hundred files: argv is the directory."""

import sys
import zipfile

for name, requires in (("alpha_one", "beta-two"), ("beta_two", None), ("gamma_three", None)):
    info = f"{name}-1.0.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
    if requires:
        metadata += f"Requires-Dist: {requires}\n"
    files = {f"{name}/m{number}.py": "value = 1\n" * 400 for number in range(60)}
    files[f"{name}/__init__.py"] = ""
    files[f"{info}/METADATA"] = metadata
    files[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    path = f"{sys.argv[1]}/{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for file, text in files.items():
            wheel.writestr(file, text)
