//! G18: hosts that lack a wall. The test binary starts itself again under such conditions, and an
//! engine there must refuse to start a session, say why, and leave nothing. G19: containers.

use std::process::Command;

use crate::harness::{Case, Severity};
use crate::support::{bare_environment, eventually, plain_builder, processes_below, traces};

/// What the tests below start: an engine under such conditions.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a part of the tests below, which start it"]
async fn there() {
    let before = traces(std::process::id());
    let engine = plain_builder(bare_environment()).build();
    let started = match engine.session().await {
        Ok(session) => session.run("print('RAN')").await.map(|o| format!("{o:?}")),
        Err(error) => Err(error),
    };
    match started {
        Ok(outcome) => println!("STARTED {outcome}"),
        Err(error) => println!("REFUSED {error}"),
    }
    engine.shutdown().await;
    drop(engine);
    eventually("the end of everything that was begun", || {
        processes_below(std::process::id()).is_empty() && traces(std::process::id()) == before
    })
    .await;
}

/// How to make a host that lacks something.
enum Host<'a> {
    /// A shell script of the root of new user and mount namespaces, which continues with `exec "$@"`.
    Script(&'a str),
    /// The kernel refuses this call (number, error) where argument & mask == value.
    Deny {
        number: u32,
        error: i32,
        argument: u32,
        mask: u32,
        value: u32,
    },
}

/// Starts an engine on such a host; returns what it says, `REFUSED` or `STARTED` first.
fn on(host: &Host<'_>) -> String {
    let mut command = match host {
        Host::Script(script) => {
            let mut command = Command::new("unshare");
            if !belljar_walls::has_admin_capability() || script.contains("namespaces") {
                command.args(["--user", "--map-root-user"]);
            }
            command.args(["--mount", "sh", "-ec", script, "sh"]);
            command
        }
        Host::Deny {
            number,
            error,
            argument,
            mask,
            value,
        } => {
            let environment = bare_environment();
            let mut command = Command::new(environment.python());
            command.args(["-I", "-c", include_str!("deny.py")]);
            command.args(
                [*number, error.unsigned_abs(), *argument, *mask, *value].map(|n| n.to_string()),
            );
            command
        }
    };
    let output = command
        .arg(std::env::current_exe().unwrap())
        .args(["g_hosts::there", "--exact", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let start = text.find("REFUSED ").or_else(|| text.find("STARTED "));
    text[start.unwrap_or_else(|| panic!("{text}"))..].to_owned()
}

/// A case on such a host: its refusal names each of these.
async fn refuses(
    id: &'static str,
    attack: &'static str,
    expectation: &'static str,
    host: Host<'_>,
    names: &[&str],
) {
    let case = Case::begin(id, Severity::Escape, attack, expectation).await;
    let message = on(&host);
    assert!(message.starts_with("REFUSED"), "{message}");
    for name in names {
        assert!(message.contains(name), "{message}");
    }
    // The same machine without that condition has sessions.
    let session = case.session().await;
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g18a_without_landlock() {
    refuses(
        "G18a",
        "a kernel without Landlock",
        "no session; the error names Landlock and where it is switched on",
        Host::Deny {
            number: 444, // landlock_create_ruleset
            error: 95,
            argument: 0,
            mask: 0,
            value: 0,
        },
        &["no Landlock", "`lsm=`", "belljar doctor"],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g18b_without_seccomp() {
    refuses(
        "G18b",
        "a kernel without seccomp filters",
        "no session; the error names seccomp",
        Host::Deny {
            number: if cfg!(target_arch = "x86_64") {
                157
            } else {
                167
            }, // prctl
            error: 22,
            argument: 0,
            mask: u32::MAX,
            value: 22, // PR_SET_SECCOMP
        },
        &["seccomp"],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g18c_without_user_namespaces() {
    refuses(
        "G18c",
        "a host that allows no user namespaces (user.max_user_namespaces = 0)",
        "no session; the error names the namespaces and `belljar doctor`",
        Host::Script("echo 0 > /proc/sys/user/max_user_namespaces; exec \"$@\""),
        &["namespace", "belljar doctor"],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g18d_without_cgroups() {
    refuses(
        "G18d",
        "a host without cgroups (/sys/fs/cgroup is empty)",
        "no session; the error says that limits can't be kept, and how to get a scope",
        Host::Script("mount -t tmpfs none /sys/fs/cgroup; exec \"$@\""),
        &[
            "cannot enforce the limits",
            "cgroup",
            "systemd-run --user --scope",
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g18e_cgroups_not_delegated() {
    refuses(
        "G18e",
        "a host whose cgroups can't be written, as in most containers",
        "no session; the error names the cgroup, and how to get a scope",
        Host::Script(
            "grep -E ' cgroup2? ' /proc/mounts | while read _ place _; do mount -o remount,bind,ro $place; done; exec \"$@\"",
        ),
        &["cannot enforce the limits", "/sys/fs/cgroup", "Read-only", "systemd-run --user --scope"],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g18f_without_mounts() {
    refuses(
        "G18f",
        "a container that forbids mounts (move_mount is refused)",
        "no session; the error names the step",
        Host::Deny {
            number: 429, // move_mount
            error: 1,
            argument: 0,
            mask: 0,
            value: 0,
        },
        &[
            "the walls could not be raised",
            "showing /",
            "belljar doctor",
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g18g_without_joining_namespaces() {
    refuses(
        "G18g",
        "a container that forbids setns",
        "no session, but an error",
        Host::Deny {
            number: if cfg!(target_arch = "x86_64") {
                308
            } else {
                268
            }, // setns
            error: 1,
            argument: 0,
            mask: 0,
            value: 0,
        },
        &["pid namespace", "belljar doctor"],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g19_parts_of_proc_hidden() {
    let case = Case::begin(
        "G19",
        Severity::Escape,
        "a container whose runtime hides parts of `/proc`",
        "as root: sessions behind all walls; else no session, and the error names `/proc`",
    )
    .await;
    let message = on(&Host::Script(
        "mount -t tmpfs none /proc/fs; mount --bind /dev/null /proc/keys; exec \"$@\"",
    ));
    let expected = if belljar_walls::has_admin_capability() {
        ["STARTED", "RAN"]
    } else {
        ["REFUSED", "mounting /proc for the template"]
    };
    for part in expected {
        assert!(message.contains(part), "{message}");
    }
    let session = case.session().await;
    case.end([session]).await;
}
