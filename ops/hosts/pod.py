#!/usr/bin/env python3
"""Writes the OCI configuration that containerd writes for a pod with Belljar in it.

    pod.py KIND ROOT PROFILES COMMAND… >config.json

plain: the chart's default. The pod has seven capabilities and no profile; paths of /proc are masked, cgroups are read-only.
profiles: the same with both profiles of ops/container.
own: the pod has both profiles and a user namespace (`hostUsers: false`), an unmasked /proc (`procMount: Unmasked`) and
writable cgroups. Starts from `runc spec`, read from standard input.
"""

import json
import pathlib
import sys

kind, root, profiles, *command = sys.argv[1:]
# Those of the chart.
CAPABILITIES = "SYS_ADMIN SETUID SETGID CHOWN DAC_OVERRIDE FOWNER KILL"

config = json.load(sys.stdin)
config["root"] = {"path": root, "readonly": False}
process = config["process"]
process |= {"terminal": False, "args": command, "noNewPrivileges": False}
process["env"] = ["PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"]
names = [f"CAP_{name}" for name in CAPABILITIES.split()]
process["capabilities"] = {part: names for part in ("bounding", "effective", "permitted")}

linux = config["linux"]
linux["cgroupsPath"] = f"system.slice:pod:{kind}"
linux["namespaces"] = [{"type": name} for name in ("pid", "network", "ipc", "uts", "mount", "cgroup")]
if kind != "plain":
    process["apparmorProfile"] = "belljar-container"
    given = json.loads((pathlib.Path(profiles) / "seccomp.json").read_text())
    linux["seccomp"] = {"architectures": ["SCMP_ARCH_X86_64"]} | given
    for rule in linux["seccomp"]["syscalls"]:
        rule.pop("comment", None)
for mount in config["mounts"]:
    if mount["type"] == "cgroup" and kind == "own":
        mount["options"] = [option for option in mount["options"] if option != "ro"]
if kind == "own":
    linux["namespaces"].append({"type": "user"})
    ids = [{"containerID": 0, "hostID": 524288, "size": 65536}]
    linux |= {"uidMappings": ids, "gidMappings": ids, "maskedPaths": [], "readonlyPaths": []}
json.dump(config, sys.stdout)
