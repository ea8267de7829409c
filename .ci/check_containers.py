"""Checks the files for containers: check_containers.py HELM. Called by .ci/release-test."""
import json, pathlib, re, subprocess, sys, tempfile, tomllib

import kubernetes_validate
import yaml

HELM = sys.argv[1]
CHART = "ops/helm/belljar"
VERSION = tomllib.loads(pathlib.Path("Cargo.toml").read_text())["workspace"]["package"]["version"]
# What isolating a session takes (ops/container/README.md).
WALLS = """clone clone3 unshare setns mount umount2 pivot_root open_tree move_mount mount_setattr fsopen fsmount fsconfig
    sethostname seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self setgroups capset"""
# What reaches beyond the container, or kernel code that had many faults.
NEVER = """add_key keyctl request_key bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register ptrace
    process_vm_readv process_vm_writev kexec_load kexec_file_load init_module finit_module delete_module reboot swapon
    settimeofday clock_settime open_by_handle_at fanotify_init quotactl acct syslog iopl ioperm"""


def check_seccomp():
    profile = json.loads(pathlib.Path("ops/container/seccomp.json").read_text())
    assert profile["defaultAction"] == "SCMP_ACT_ERRNO"
    # Only what Docker, Podman, containerd and CRI-O all read.
    assert set(profile) == {"defaultAction", "defaultErrnoRet", "syscalls"}
    for entry in profile["syscalls"]:
        assert set(entry) <= {"names", "action", "args", "comment"} and entry["action"] == "SCMP_ACT_ALLOW"
    names = [name for entry in profile["syscalls"] if "args" not in entry for name in entry["names"]]
    assert len(names) == len(set(names)), "a call is listed twice"
    allowed = {name for entry in profile["syscalls"] for name in entry["names"]}
    # Sessions run below this filter, too.
    policy = pathlib.Path("crates/belljar-walls/src/seccomp/policy.rs").read_text()
    sessions = set(re.findall(r"^    SYS_(\w+) ", policy, re.MULTILINE))
    assert len(sessions) > 200
    for wanted in (sessions, set(WALLS.split())):
        assert wanted <= allowed, f"the profile lacks {sorted(wanted - allowed)}"
    assert not allowed & set(NEVER.split()), f"the profile allows {sorted(allowed & set(NEVER.split()))}"


def check_apparmor():
    profile = pathlib.Path("ops/container/apparmor").read_text()
    for rule in ("userns,", "mount,", "umount,", "pivot_root,"):
        assert f"  {rule}\n" in profile, f"the AppArmor profile lacks `{rule}`"


def check_compose():
    belljar = yaml.safe_load(pathlib.Path("ops/container/compose.yaml").read_text())["services"]["belljar"]
    assert belljar["image"] == f"belljar:{VERSION}", "the compose file names another version"
    assert "seccomp=seccomp.json" in belljar["security_opt"]
    # The same as in the chart and in the documentation.
    added = set(belljar["cap_add"])
    context = container_of(render("isolation.mode=capabilities"))["securityContext"]
    documented = pathlib.Path("docs/operations.md").read_text()
    documented = re.search(r"docker run .*?[^\\]\n", documented, re.DOTALL)[0]
    assert added == set(context["capabilities"]["add"]) == set(re.findall(r"--cap-add ([A-Z_]+)", documented))
    # Each node of the example of a cluster is a container like that one.
    services = yaml.safe_load(pathlib.Path("ops/container/compose-cluster.yaml").read_text())["services"]
    nodes = {name: service for name, service in services.items() if service["image"] == belljar["image"]}
    assert len(nodes) == 3
    for name, node in nodes.items():
        for key in ("cap_drop", "cap_add", "security_opt", "read_only", "tmpfs", "ulimits", "stop_grace_period"):
            assert node[key] == belljar[key], f"`{key}` of {name} differs from that of the single service"
        assert node["command"] == [f"--node-address={name}:7878"]
    assert len({str(node["volumes"]) for node in nodes.values()}) == 3, "nodes share a data directory"


def check_chart():
    helm("lint", "--strict", CHART)
    for mode in ("privileged", "capabilities", "userNamespace"):
        resources = render(f"isolation.mode={mode}")
        pod = resources["StatefulSet"]["spec"]["template"]["spec"]
        container = container_of(resources)
        context = container["securityContext"]
        assert context.get("privileged", False) == (mode == "privileged")
        assert pod.get("hostUsers", True) == (mode != "userNamespace")
        assert context.get("procMount", "Default") == ("Unmasked" if mode == "userNamespace" else "Default")
        for profile in ("appArmorProfile", "seccompProfile"):
            assert context.get(profile) == (None if mode == "privileged" else {"type": "Unconfined"})
        assert container["image"] == f"belljar:{VERSION}"
        assert "--insecure-admin" in container["args"] and "--host=test-belljar.default.svc" in container["args"]
        assert {"startupProbe", "readinessProbe", "livenessProbe"} <= set(container)
        assert set(resources) == {"StatefulSet", "Service", "NetworkPolicy", "PodDisruptionBudget"}
    context = container_of(render("isolation.seccompProfile=belljar.json", "isolation.appArmorProfile=belljar"))["securityContext"]
    assert context["seccompProfile"] == {"type": "Localhost", "localhostProfile": "belljar.json"}
    assert context["appArmorProfile"] == {"type": "Localhost", "localhostProfile": "belljar"}
    # All that can be switched on, and off.
    peer = '[{"namespaceSelector":{"matchLabels":{"name":"monitoring"}}}]'
    resources = render(
        "tlsSecret=tls", "modelKeys.OPENAI_API_KEY=key", "hosts={belljar.example.org}", "options={--idle,5}",
        "storage.storageClass=fast", "imagePullSecrets[0].name=registry", "nodeSelector.disk=ssd",
        json=[f"networkPolicy.monitoring={peer}", 'networkPolicy.egress=[{"ports":[{"port":443}]}]'],
    )
    container = container_of(resources)
    assert resources["Secret"]["stringData"] == {"OPENAI_API_KEY": "key"}
    assert container["envFrom"] == [{"secretRef": {"name": "test-belljar-models"}}]
    assert container["readinessProbe"]["httpGet"]["scheme"] == "HTTPS"
    assert "--insecure-admin" not in container["args"] and container["args"][-2:] == ["--idle", "5"]
    assert len(resources["NetworkPolicy"]["spec"]["ingress"]) == 2
    resources = render("modelKeysSecret=mine", "networkPolicy.enabled=false", "podDisruptionBudget.enabled=false")
    assert set(resources) == {"StatefulSet", "Service"}
    check_cluster()
    # A setting that does not exist is an error.
    for wrong in ("isolation.mode=none", "replicas=3", "cluster.database=postgres://db/belljar"):
        assert subprocess.run([HELM, "template", CHART, "--set", wrong], capture_output=True).returncode != 0, wrong


def check_cluster():
    """The example of docs/cluster.md."""
    example = re.search(r"```yaml\n(.*?)```", pathlib.Path("docs/cluster.md").read_text(), re.DOTALL)[1]
    values = yaml.safe_load(example)
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(example)
        file.flush()
        plain, secured = (render(setting, values=file.name) for setting in ("tlsSecret=", "tlsSecret=tls"))
    assert plain["StatefulSet"]["spec"]["replicas"] == 3
    pod = plain["StatefulSet"]["spec"]["template"]["spec"]
    node = container_of(plain)
    for option in ("database", "objects"):
        assert f"--{option}={values['cluster'][option]}" in node["args"]
    # The names of the pods are those of the service without an address.
    address = "$(POD_NAME).test-belljar-nodes.default.svc:7878"
    assert f"--node-address={address}" in node["args"]
    assert plain["StatefulSet"]["spec"]["serviceName"] == plain["Service of nodes"]["metadata"]["name"] == "test-belljar-nodes"
    assert plain["Service of nodes"]["spec"]["clusterIP"] == "None"
    assert node["envFrom"] == [{"secretRef": {"name": values["cluster"]["secret"]}}]
    for resources, scheme in ((plain, "http"), (secured, "https")):
        shell, option, drain = container_of(resources)["lifecycle"]["preStop"]["exec"]["command"]
        assert (shell, option) == ("sh", "-c")
        assert f'drain "{scheme}://{address.replace("(", "").replace(")", "")}" --wait' in drain
        assert f"--database '{values['cluster']['database']}'" in drain
        seconds = int(re.match(r"timeout (\d+) ", drain)[1])
        assert pod["terminationGracePeriodSeconds"] >= seconds + 5 + 90
    assert "tcpSocket" in node["livenessProbe"] and "httpGet" in node["readinessProbe"]
    assert "podAntiAffinity" in pod["affinity"]
    assert plain["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1
    policy = plain["NetworkPolicy"]["spec"]
    assert policy["egress"][2:] == values["networkPolicy"]["egress"] and len(policy["ingress"]) == 2


def render(*settings, json=(), values=None):
    """The resources of the chart by kind, each valid for the oldest and the newest API that it is for."""
    arguments = [part for setting in settings for part in ("--set", setting)]
    arguments += [part for setting in json for part in ("--set-json", setting)]
    arguments += ["--values", values] if values else []
    resources = list(yaml.safe_load_all(helm("template", "test", CHART, *arguments)))
    for resource in resources:
        for version in ("1.33", "1.37") if settings[0].endswith("userNamespace") else ("1.30", "1.37"):
            kubernetes_validate.validate(resource, version, strict=True)
    # There may be a second service.
    kinds = {resource["kind"]: resource for resource in reversed(resources)}
    for resource in resources:
        if resource.get("spec", {}).get("clusterIP") == "None":
            kinds["Service of nodes"] = resource
    return kinds


def container_of(resources):
    (container,) = resources["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    return container


def helm(*arguments):
    run = subprocess.run([HELM, *arguments], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


check_seccomp()
check_apparmor()
check_compose()
check_chart()
