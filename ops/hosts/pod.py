#!/usr/bin/env python3
"""Writes the OCI configuration that containerd writes for a pod with Belljar in it.

    pod.py shared|own ROOT PROFILES COMMAND… >config.json

shared: the pod has the node's user ids and the capability SYS_ADMIN; paths of /proc are masked, cgroups are read-only.
own: the pod has a user namespace (`hostUsers: false`), an unmasked /proc (`procMount: Unmasked`) and writable cgroups.
Starts from `runc spec`, read from standard input.
"""

import json
import pathlib
import sys

kind, root, profiles, *command = sys.argv[1:]
# What containerd gives by default.
CAPABILITIES = "CHOWN DAC_OVERRIDE FSETID FOWNER MKNOD NET_RAW SETGID SETUID SETFCAP SETPCAP NET_BIND_SERVICE SYS_CHROOT KILL AUDIT_WRITE"

config = json.load(sys.stdin)
config["root"] = {"path": root, "readonly": False}
process = config["process"]
process |= {"terminal": False, "args": command, "noNewPrivileges": False, "apparmorProfile": "belljar-container"}
process["env"] = ["PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"]
names = [f"CAP_{name}" for name in [*CAPABILITIES.split(), "SYS_ADMIN"]]
process["capabilities"] = {part: names for part in ("bounding", "effective", "permitted")}

linux = config["linux"]
linux["cgroupsPath"] = f"/kubepods-{kind}"
linux["namespaces"] = [{"type": name} for name in ("pid", "network", "ipc", "uts", "mount", "cgroup")]
given = json.loads((pathlib.Path(profiles) / "seccomp.json").read_text())
linux["seccomp"] = {
    "defaultAction": given["defaultAction"],
    "defaultErrnoRet": given.get("defaultErrnoRet", 1),
    "architectures": ["SCMP_ARCH_X86_64"],
    "syscalls": [
        {key: rule[key] for key in ("names", "action", "errnoRet", "args") if key in rule}
        for rule in given["syscalls"]
        # A rule for a capability that the pod lacks, or that it has too much, is not for it.
        if set(rule.get("includes", {}).get("caps", [])) <= set(names)
        and not set(rule.get("excludes", {}).get("caps", [])) & set(names)
        and "arches" not in rule.get("includes", {})
    ],
}
for mount in config["mounts"]:
    if mount["type"] == "cgroup" and kind == "own":
        mount["options"] = [option for option in mount["options"] if option != "ro"]
if kind == "own":
    linux["namespaces"].append({"type": "user"})
    ids = [{"containerID": 0, "hostID": 524288, "size": 65536}]
    linux |= {"uidMappings": ids, "gidMappings": ids, "maskedPaths": [], "readonlyPaths": []}
json.dump(config, sys.stdout)
