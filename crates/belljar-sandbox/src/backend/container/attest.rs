//! What a container must be before code runs in it: what the engine was asked for, as the steward found it.

use belljar_protocol::{Attest, AttestedLimits, STEWARD_VERSION};

use super::create::{CAPABILITIES, own_processes};
use super::error::ContainerError;
use crate::limits::Limits;

/// Lets a container through that is closed as it was asked for. One with a kernel of its own, such as gVisor's, shows no
/// limits inside: they are then those that the engine says it has set.
pub(super) fn check(
    attest: &Attest,
    limits: &Limits,
    set_by_engine: Option<AttestedLimits>,
) -> Result<(), ContainerError> {
    let image = |why: String| Err(ContainerError::Image(why));
    let (major, minor, micro) = attest.python;
    if attest.implementation != "cpython" || (major, minor) < (3, 10) {
        let name = belljar_protocol::visible(&attest.implementation);
        return image(format!(
            "it has {name} {major}.{minor}.{micro}, and CPython 3.10 or later is needed"
        ));
    }
    if !attest.ctypes {
        return image("its Python has no `ctypes`".to_owned());
    }
    if attest.version != STEWARD_VERSION {
        return Err(ContainerError::Steward("it is another version".to_owned()));
    }
    if attest.machine != std::env::consts::ARCH {
        let machine = belljar_protocol::visible(&attest.machine);
        return image(format!(
            "the engine's host is {machine}, and this one {}",
            std::env::consts::ARCH
        ));
    }
    let missing = missing(attest, limits, set_by_engine);
    if missing.is_empty() {
        Ok(())
    } else {
        Err(ContainerError::Walls(missing))
    }
}

fn missing(attest: &Attest, limits: &Limits, set_by_engine: Option<AttestedLimits>) -> Vec<String> {
    let mut missing = Vec::new();
    let mut unless = |is_there: bool, what: &str| {
        if !is_there {
            missing.push(what.to_owned());
        }
    };
    unless(
        attest.seccomp == 2 || set_by_engine.is_some(),
        "system calls are not filtered by the engine",
    );
    unless(attest.no_new_privileges, "programs can gain privileges");
    unless(
        !attest.root_writable,
        "its root file system can be written to",
    );
    let more = attest.capabilities & !CAPABILITIES;
    unless(more == 0, "it has capabilities that were not asked for");
    let only_loopback = attest.interfaces.iter().all(|name| name == "lo");
    unless(only_loopback, "it has a network");
    let set = set_by_engine.unwrap_or(attest.limits);
    let at_most = |limit: Option<u64>, most: u64| limit.is_some_and(|limit| limit <= most);
    unless(
        at_most(set.memory, limits.memory_bytes),
        "its memory is not limited as it was asked for",
    );
    unless(
        at_most(set.processes, own_processes(limits)),
        "its processes are not limited as it was asked for",
    );
    unless(
        at_most(set.milli_cpus, limits.milli_cpus),
        "its CPU time is not limited as it was asked for",
    );
    for (path, most) in [
        ("/workspace", limits.workspace_bytes),
        ("/tmp", limits.temporary_bytes),
    ] {
        let mount = attest.mounts.get(path);
        let is_bounded = mount.is_some_and(|mount| mount.kind == "tmpfs" && mount.bytes <= most);
        unless(is_bounded, &format!("{path} is not limited in size"));
    }
    missing
}

#[cfg(test)]
mod tests {
    use belljar_protocol::AttestedMount;

    use super::*;

    fn closed(limits: &Limits) -> Attest {
        let mount = |bytes| AttestedMount {
            kind: "tmpfs".to_owned(),
            bytes,
        };
        Attest {
            version: STEWARD_VERSION,
            python: (3, 12, 1),
            implementation: "cpython".to_owned(),
            executable: "/usr/bin/python3".to_owned(),
            machine: std::env::consts::ARCH.to_owned(),
            kernel: "6.1".to_owned(),
            uid: 0,
            capabilities: CAPABILITIES,
            bounding: CAPABILITIES,
            no_new_privileges: true,
            seccomp: 2,
            interfaces: vec!["lo".to_owned()],
            root_writable: false,
            limits: AttestedLimits {
                memory: Some(limits.memory_bytes),
                processes: Some(own_processes(limits)),
                milli_cpus: Some(limits.milli_cpus),
            },
            mounts: [
                ("/workspace".to_owned(), mount(limits.workspace_bytes)),
                ("/tmp".to_owned(), mount(limits.temporary_bytes)),
            ]
            .into(),
            ctypes: true,
            packages: Vec::new(),
            modules: Vec::new(),
        }
    }

    type Opened = (fn(&mut Attest), &'static str);

    /// G18: a missing wall means no start.
    #[test]
    fn g18_each_missing_wall_is_refused_by_name() {
        let limits = Limits::default();
        assert!(check(&closed(&limits), &limits, None).is_ok());
        let opened: [Opened; 10] = [
            (|attest| attest.seccomp = 0, "system calls"),
            (|attest| attest.no_new_privileges = false, "privileges"),
            (|attest| attest.root_writable = true, "root file system"),
            (|attest| attest.capabilities |= 1 << 21, "capabilities"),
            (
                |attest| attest.interfaces.push("eth0".to_owned()),
                "network",
            ),
            (|attest| attest.limits.memory = None, "memory"),
            (
                |attest| attest.limits.processes = Some(1 << 40),
                "processes",
            ),
            (|attest| attest.limits.milli_cpus = None, "CPU"),
            (|attest| attest.mounts.clear(), "/workspace"),
            (|attest| attest.python = (3, 9, 1), "3.10 or later"),
        ];
        for (open, words) in opened {
            let mut attest = closed(&limits);
            open(&mut attest);
            let refused = check(&attest, &limits, None).unwrap_err().to_string();
            assert!(refused.contains(words), "{refused}");
        }
    }
}
