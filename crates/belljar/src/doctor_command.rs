//! `belljar doctor`: what this host has and lacks, and what to do about it.

use std::fmt::{Display, Write as _};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use belljar_sandbox::{ContainerError, Engine, Environment, Error};
use belljar_walls::{
    COVERS_EMPTYING, Cgroups, LANDLOCK_FLOOR, has_admin_capability, landlock_version, remove_tree,
    seccomp_works, session_ids, user_namespaces_work,
};
use clap::Args;
use owo_colors::OwoColorize;
use rustix::io::Errno;
use serde::Serialize;

use belljar_sandbox::protocol::texts::DoctorTexts;

use crate::container_args::container_spec;
use crate::{error_texts, show, start, table, words};

/// The oldest kernel: the first with Landlock 2.
const OLDEST_KERNEL: (u32, u32) = (5, 19);
/// The version of Landlock that also keeps signals and abstract sockets inside (Linux 6.12).
const GOOD_LANDLOCK: u32 = 6;
/// Descriptors that a session costs the host.
const FILES_OF_A_SESSION: u64 = 10;
const ENOUGH_SPACE: u64 = 1 << 30;
/// Time limit of `--version` of a program.
const VERSION_DEADLINE: Duration = Duration::from_secs(10);
const SESSION_DEADLINE: Duration = Duration::from_mins(2);

#[derive(Debug, Args)]
#[command(after_help = "\
Each line is one requirement: `ok`, `MISSING` with a remedy, or `note` for a possible improvement. \
The last check starts a real session.

Exit code: 0 if sessions can run here, 1 if not.")]
pub(crate) struct DoctorArgs {
    /// Print JSON lines: check, status (ok, missing, note), detail, remedy
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Ok,
    Missing,
    Note,
}

/// What was found of one requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    status: Status,
    detail: String,
    /// What to do, one way a line.
    remedies: Vec<String>,
}

impl Finding {
    fn ok(detail: impl Into<String>) -> Self {
        Self {
            status: Status::Ok,
            detail: detail.into(),
            remedies: Vec::new(),
        }
    }

    fn note(detail: impl Into<String>) -> Self {
        Self {
            status: Status::Note,
            ..Self::ok(detail)
        }
    }

    fn missing(detail: impl Into<String>) -> Self {
        Self {
            status: Status::Missing,
            ..Self::ok(detail)
        }
    }

    fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedies.push(remedy.into());
        self
    }
}

/// What it says.
fn texts() -> &'static DoctorTexts {
    &words::texts().doctor
}

pub(crate) async fn run(args: DoctorArgs) -> anyhow::Result<ExitCode> {
    let texts = texts();
    // The name in JSON, and the one for people.
    let report = |check: &str, name: &str, finding: &Finding| {
        let line = if args.json {
            in_json(check, finding)
        } else {
            for_people(name, finding)
        };
        let mut stdout = anstream::stdout().lock();
        // Nobody to tell is no reason not to finish with the right code.
        let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
    };
    let walls = [
        (
            "linux kernel",
            texts.kernel,
            kernel(&rustix::system::uname().release().to_string_lossy()),
        ),
        ("landlock", "landlock", landlock(landlock_version())),
        ("seccomp", "seccomp", seccomp(seccomp_works())),
        ("user namespaces", texts.user_namespaces, user_namespaces()),
        (
            "privileges",
            texts.privileges,
            privileges(session_ids().is_some()),
        ),
        ("cgroups", "cgroups", cgroups()),
        (
            "temporary files",
            texts.temporary_files,
            temporary_files(&std::env::temp_dir()),
        ),
    ];
    for (check, name, finding) in &walls {
        report(check, name, finding);
    }
    let blocked = walls
        .iter()
        .any(|(_, _, finding)| finding.status == Status::Missing);
    report(
        "open files",
        texts.open_files,
        &open_files(rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum),
    );
    report("uv", "uv", &uv().await);
    let (python, finding) = tokio::task::spawn_blocking(python).await?;
    report("python", "python", &finding);
    let (environment, finding) = environments();
    report("environments", texts.environments, &finding);
    let environment = environment.or(python);
    report("gvisor", "gVisor", &gvisor(environment.clone()).await);
    report("containers", texts.containers, &containers().await);
    let session = match environment {
        Some(environment) => session(environment, blocked).await,
        None => Finding::missing(texts.no_python).remedy(texts.install_python_and_uv),
    };
    report("a session", texts.session, &session);
    Ok(ExitCode::from(u8::from(session.status == Status::Missing)))
}

/// `ok       cgroups: version 2`, and below it what to do.
fn for_people(check: &str, finding: &Finding) -> String {
    let texts = texts();
    let word = match finding.status {
        Status::Ok => table::padded(texts.ok, 7).green().to_string(),
        Status::Missing => table::padded(texts.missing, 7).red().bold().to_string(),
        Status::Note => table::padded(texts.note, 7).yellow().to_string(),
    };
    let mut text = format!("{word}  {}: {}", check.bold(), indented(&finding.detail));
    for remedy in &finding.remedies {
        let _ = write!(text, "\n         {}", texts.remedy(&indented(remedy)));
    }
    text
}

/// Text from elsewhere, further lines under the first.
fn indented(text: &str) -> String {
    show::message(text.trim_end()).replace('\n', "\n           ")
}

fn in_json(check: &str, finding: &Finding) -> String {
    let remedy = (!finding.remedies.is_empty()).then(|| finding.remedies.join("\n"));
    serde_json::json!({
        "check": check,
        "status": finding.status,
        "detail": finding.detail,
        "remedy": remedy,
    })
    .to_string()
}

fn kernel(release: &str) -> Finding {
    let Some(version) = kernel_version(release) else {
        return Finding::note(texts().kernel_unknown(release)).remedy(texts().check_kernel);
    };
    if version < OLDEST_KERNEL {
        Finding::missing(texts().kernel_old(release)).remedy(texts().update_kernel)
    } else {
        Finding::ok(format!("Linux {release}"))
    }
}

fn landlock(version: Option<u32>) -> Finding {
    let texts = texts();
    match version {
        None => Finding::missing(texts.landlock_missing).remedy(texts.boot_with_landlock),
        Some(version) if version < LANDLOCK_FLOOR => {
            Finding::missing(texts.landlock_old(version, LANDLOCK_FLOOR))
                .remedy(texts.update_kernel)
        }
        Some(version) if version < COVERS_EMPTYING => {
            Finding::note(texts.landlock_no_truncate(version)).remedy(texts.newer_kernel_all)
        }
        Some(version) if version < GOOD_LANDLOCK => {
            Finding::note(texts.landlock_files(version)).remedy(texts.newer_kernel)
        }
        Some(version) => Finding::ok(texts.version(version)),
    }
}

fn seccomp(works: bool) -> Finding {
    if works {
        Finding::ok(texts().seccomp_works)
    } else {
        Finding::missing(texts().seccomp_missing).remedy(texts().kernel_with_seccomp)
    }
}

/// Major and minor of what `uname -r` says.
fn kernel_version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// What the host says about user namespaces; `None` where it has no such setting.
#[derive(Clone, Debug, Default)]
struct NamespaceSettings {
    maximum: Option<u64>,
    unprivileged: Option<u64>,
    apparmor: Option<u64>,
    /// Whether this process is under a filter of system calls, as in a container.
    filtered: bool,
    /// What `AppArmor` would have to be given.
    profile: String,
}

fn user_namespaces() -> Finding {
    let setting = |name: &str| {
        let text = std::fs::read_to_string(Path::new("/proc/sys").join(name)).ok()?;
        text.trim().parse().ok()
    };
    let settings = NamespaceSettings {
        maximum: setting("user/max_user_namespaces"),
        unprivileged: setting("kernel/unprivileged_userns_clone"),
        apparmor: setting("kernel/apparmor_restrict_unprivileged_userns"),
        filtered: std::fs::read_to_string("/proc/self/status")
            .is_ok_and(|status| status.lines().any(|line| line == "Seccomp:\t2")),
        profile: profile(),
    };
    judge_namespaces(user_namespaces_work(), &settings, has_admin_capability())
}

/// The profile of `AppArmor` for this program, wherever it is.
fn profile() -> String {
    let program = std::env::current_exe().unwrap_or_else(|_| "/usr/bin/belljar".into());
    let text = include_str!("apparmor");
    text.replace("/usr/bin/belljar", &program.display().to_string())
}

fn judge_namespaces(
    tried: std::io::Result<()>,
    settings: &NamespaceSettings,
    admin: bool,
) -> Finding {
    let texts = texts();
    let set = |setting: &str| texts.sysctl(setting);
    let error = match tried {
        Ok(()) => return Finding::ok(texts.namespaces_work),
        Err(error) => error,
    };
    let refused = |by: &str| texts.namespaces_refused(by, &error);
    let mut finding = Finding::missing(match Errno::from_io_error(&error) {
        Some(Errno::ACCESS) => refused("AppArmor"),
        Some(Errno::PERM) if settings.filtered => refused(texts.container_filter),
        _ => texts.namespaces_fail(&error),
    });
    if settings.maximum == Some(0) {
        finding = finding.remedy(set("user.max_user_namespaces=15000"));
    }
    if settings.unprivileged == Some(0) && !admin {
        finding = finding.remedy(set("kernel.unprivileged_userns_clone=1"));
    }
    if settings.apparmor == Some(1) {
        finding = finding
            .remedy(texts.apparmor_profile(&settings.profile))
            .remedy(texts.for_all_programs(&set("kernel.apparmor_restrict_unprivileged_userns=0")));
    }
    if finding.remedies.is_empty() {
        finding = finding.remedy(texts.in_container);
    }
    if !admin {
        finding = finding.remedy(texts.or_as_root);
    }
    finding
}

fn privileges(own_ids: bool) -> Finding {
    if own_ids {
        Finding::ok(texts().as_root)
    } else {
        Finding::note(texts().as_user).remedy(texts().as_user_remedy)
    }
}

fn cgroups() -> Finding {
    let scope = "systemd-run --user --scope -p Delegate=yes belljar …";
    match Cgroups::create(&format!("belljar-doctor-{}", std::process::id())) {
        Ok(cgroups) => {
            let version = if cgroups.is_v2() { 2 } else { 1 };
            let left: Vec<PathBuf> = cgroups
                .trees()
                .into_iter()
                .filter(|tree| remove_tree(tree).is_err())
                .collect();
            match left.first() {
                None => Finding::ok(texts().cgroups_work(version)),
                Some(tree) => Finding::note(texts().cgroup_left(version))
                    .remedy(format!("rmdir {}", tree.display())),
            }
        }
        Err(error) => {
            let finding = Finding::missing(error.to_string());
            // Only version 2 can be handed to an ordinary user.
            let finding = if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
                finding.remedy(scope)
            } else {
                finding.remedy(texts().boot_with_cgroup2(scope))
            };
            let finding = finding.remedy(texts().container_settings);
            if has_admin_capability() {
                finding
            } else {
                finding.remedy(texts().or_as_root)
            }
        }
    }
}

fn temporary_files(directory: &Path) -> Finding {
    let shown = directory.display();
    let probe = directory.join(format!("belljar-doctor-{}", std::process::id()));
    let written = std::fs::File::create_new(&probe).and_then(|mut file| file.write_all(b"belljar"));
    let _ = std::fs::remove_file(&probe);
    if let Err(error) = written {
        return Finding::missing(texts().not_writable(&shown, &error)).remedy(texts().set_tmpdir);
    }
    let free = match rustix::fs::statvfs(directory) {
        Ok(found) => found.f_bavail.saturating_mul(found.f_frsize),
        Err(error) => return Finding::note(texts().space_unknown(&shown, &error)),
    };
    let megabytes = free >> 20;
    if free < ENOUGH_SPACE {
        Finding::note(texts().little_space(&shown, megabytes)).remedy(texts().free_space)
    } else {
        Finding::ok(texts().space(&shown, megabytes))
    }
}

/// `None` stands for no limit.
fn open_files(hard_limit: Option<u64>) -> Finding {
    let Some(limit) = hard_limit else {
        return Finding::ok(texts().no_limit);
    };
    let sessions = limit / FILES_OF_A_SESSION;
    let detail = texts().files_limit(limit, sessions);
    if sessions < 100 {
        Finding::note(detail).remedy(texts().raise_files_limit)
    } else {
        Finding::ok(detail)
    }
}

async fn uv() -> Finding {
    let remedy = texts().uv_remedy;
    let named = std::env::var_os("BELLJAR_UV")
        .filter(|path| !path.is_empty())
        .map(PathBuf::from);
    let Some(program) = named.or_else(|| find_in_path("uv")) else {
        return Finding::note(texts().uv_missing).remedy(remedy);
    };
    let shown = program.display();
    let asked = tokio::process::Command::new(&program)
        .arg("--version")
        .kill_on_drop(true)
        .output();
    match tokio::time::timeout(VERSION_DEADLINE, asked).await {
        Ok(Ok(output)) if output.status.success() => Finding::ok(format!(
            "{} ({shown})",
            String::from_utf8_lossy(&output.stdout).trim()
        )),
        Ok(Ok(output)) => Finding::note(texts().uv_exited(&shown, &output.status)).remedy(remedy),
        Ok(Err(error)) => Finding::note(texts().uv_not_started(&shown, &error)).remedy(remedy),
        Err(_) => Finding::note(texts().uv_silent(&shown)).remedy(remedy),
    }
}

fn python() -> (Option<Environment>, Finding) {
    let remedy = texts().python_remedy;
    let Some(path) = find_in_path("python3") else {
        return (
            None,
            Finding::missing(texts().python_missing).remedy(remedy),
        );
    };
    match Environment::from_python(&path) {
        Ok(environment) => {
            let detail = format!("{} ({})", version(&environment), path.display());
            (Some(environment), Finding::ok(detail))
        }
        Err(error) => (
            None,
            Finding::missing(format!("{}: {error}", path.display())).remedy(remedy),
        ),
    }
}

fn version(environment: &Environment) -> String {
    let (major, minor, micro) = environment.version();
    format!("Python {major}.{minor}.{micro}")
}

/// The `default` environment, or the first one there is.
fn environments() -> (Option<Environment>, Finding) {
    let found = start::store().and_then(|store| Ok(store.inspect()?));
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            let finding = Finding::missing(texts().environments_unreadable(&error));
            return (None, finding.remedy(texts().own_data_dir));
        }
    };
    let (mut usable, mut broken) = (Vec::new(), Vec::new());
    for environment in found {
        match environment {
            Ok(environment) => usable.push(environment),
            Err(error) => broken.push(error),
        }
    }
    let finding = judge_environments(usable.iter().map(Environment::name), &broken);
    // The walls to check are ours; containers have a check of their own.
    usable.retain(|environment| environment.image().is_none());
    let best = usable
        .iter()
        .position(|environment| environment.name() == "default")
        .unwrap_or(0);
    (
        (!usable.is_empty()).then(|| usable.swap_remove(best)),
        finding,
    )
}

fn judge_environments<'a>(
    usable: impl Iterator<Item = &'a str>,
    broken: &[impl Display],
) -> Finding {
    let names = usable.collect::<Vec<_>>().join(", ");
    if let Some(first) = broken.first() {
        // The error says what to do itself.
        let usable = if names.is_empty() {
            texts().none
        } else {
            &names
        };
        return Finding::note(texts().environments_broken(usable, &first.to_string()));
    }
    if names.is_empty() {
        Finding::note(texts().no_environments).remedy(texts().create_environment)
    } else {
        Finding::ok(names)
    }
}

/// A real one, which also shows what can't be asked for: mounts of `/proc` and all the rest.
async fn session(environment: Environment, blocked: bool) -> Finding {
    let texts = texts();
    let (python, name) = (version(&environment), environment.name().to_owned());
    let engine = Engine::builder(environment).build();
    let result = tokio::time::timeout(SESSION_DEADLINE, try_session(&engine)).await;
    engine.shutdown().await;
    let why = match result {
        Ok(Ok((warm, start))) => {
            let (warm, start) = (milliseconds(warm), milliseconds(start));
            return Finding::ok(texts.session_works(&start, &python, &name, &warm));
        }
        // Our errors name their cause themselves.
        Ok(Err(error)) => error_texts::full(&error),
        Err(_) => texts.session_silent(SESSION_DEADLINE.as_secs()),
    };
    let finding = Finding::missing(texts.session_fails(&why, &python, &name));
    if blocked {
        return finding.remedy(texts.fix_above);
    }
    finding.remedy(texts.in_container).remedy(texts.report_log)
}

/// A session with a kernel of its own, where gVisor is installed.
async fn gvisor(environment: Option<Environment>) -> Finding {
    let texts = texts();
    let (Some(environment), Some(_)) = (environment, find_in_path("runsc")) else {
        return Finding::note(texts.gvisor_missing).remedy(texts.install_gvisor);
    };
    let environment = environment.preload_only(|_| false);
    let engine = Engine::builder(environment).gvisor().build();
    let result = tokio::time::timeout(SESSION_DEADLINE, try_session(&engine)).await;
    engine.shutdown().await;
    match result {
        Ok(Ok((_, start))) => Finding::ok(texts.gvisor_works(&milliseconds(start))),
        Ok(Err(error)) => Finding::note(error_texts::full(&error)),
        Err(_) => Finding::note(texts.session_silent(SESSION_DEADLINE.as_secs())),
    }
}

/// A container engine. There may be no image, so that none is started.
async fn containers() -> Finding {
    let spec = container_spec(None, None);
    match Environment::from_image(&spec, "belljar-doctor", None).await {
        Err(Error::Container(error)) if !matches!(*error, ContainerError::NoImage { .. }) => {
            let why = error.to_string();
            // Its hint is the remedy.
            let why = why.lines().next().unwrap_or_default().to_owned();
            Finding::note(why).remedy(texts().containers_remedy)
        }
        Err(Error::Container(_)) | Ok(_) => Finding::ok(texts().containers_work),
        Err(error) => Finding::note(error.to_string()),
    }
}

/// How long the template took, and then a session with its first cell.
async fn try_session(engine: &Engine) -> anyhow::Result<(Duration, Duration)> {
    let begun = Instant::now();
    engine.warm().await?;
    let warm = begun.elapsed();
    let begun = Instant::now();
    let session = engine.session().await?;
    let outcome = session.run("1 + 1").await?;
    let start = begun.elapsed();
    let shown = outcome.displays.first().and_then(|display| display.text());
    let right = outcome.is_success()
        && (shown.map(str::trim) == Some("2") || outcome.stdout.text.trim() == "2");
    anyhow::ensure!(
        right,
        "1 + 1 was not 2: {:?}, {:?}",
        outcome.status,
        outcome.cause
    );
    session.close().await?;
    Ok((warm, start))
}

fn milliseconds(duration: Duration) -> String {
    format!("{:.1}", duration.as_secs_f64() * 1000.0)
}

fn find_in_path(name: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;

    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(name))
        .find(|candidate| {
            candidate
                .metadata()
                .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_versions_are_read_as_distributions_write_them() {
        assert_eq!(kernel_version("6.8.0-45-generic"), Some((6, 8)));
        assert_eq!(
            kernel_version("5.15.167.4-microsoft-standard-WSL2"),
            Some((5, 15))
        );
        assert_eq!(kernel_version("4.18.0-553.el8_10.x86_64"), Some((4, 18)));
        assert_eq!(kernel_version("6.12-rc3"), Some((6, 12)));
        assert_eq!(kernel_version("7.0"), Some((7, 0)));
        assert_eq!(kernel_version("Hurd"), None);
        assert_eq!(kernel_version(""), None);
    }

    #[test]
    fn kernels_are_judged_by_number() {
        assert_eq!(kernel("5.11.22").status, Status::Missing);
        assert_eq!(kernel("4.18.0").status, Status::Missing);
        assert_eq!(kernel("5.15.0").status, Status::Missing);
        assert_eq!(kernel("6.1.0").status, Status::Ok);
        assert_eq!(kernel("10.0.0").status, Status::Ok);
        assert_eq!(kernel("strange").status, Status::Note);
    }

    #[test]
    fn filters_are_judged() {
        assert_eq!(landlock(None).status, Status::Missing);
        assert_eq!(landlock(Some(1)).status, Status::Missing);
        assert_eq!(landlock(Some(2)).status, Status::Note);
        assert_eq!(landlock(Some(3)).status, Status::Note);
        assert_eq!(landlock(Some(6)).status, Status::Ok);
        assert_eq!(seccomp(false).status, Status::Missing);
        assert_eq!(seccomp(true).status, Status::Ok);
    }

    #[test]
    fn each_setting_against_user_namespaces_has_its_remedy() {
        let none = NamespaceSettings::default;
        let judge = |settings: &NamespaceSettings, admin| {
            judge_namespaces(Err(Errno::PERM.into()), settings, admin)
        };
        let remedies =
            |settings: &NamespaceSettings, admin| judge(settings, admin).remedies.join("\n");
        assert_eq!(judge_namespaces(Ok(()), &none(), false).status, Status::Ok);
        assert_eq!(judge(&none(), false).status, Status::Missing);
        assert!(remedies(&none(), true).contains("In a container"));
        assert!(!remedies(&none(), true).contains("as root"));
        let zero = NamespaceSettings {
            maximum: Some(0),
            ..none()
        };
        assert!(remedies(&zero, true).contains("user.max_user_namespaces=15000"));
        let debian = NamespaceSettings {
            unprivileged: Some(0),
            ..none()
        };
        assert!(remedies(&debian, false).contains("kernel.unprivileged_userns_clone=1"));
        let container = NamespaceSettings {
            filtered: true,
            ..none()
        };
        let finding = judge(&container, true);
        assert!(finding.detail.contains("seccomp"), "{}", finding.detail);
    }

    /// H8: with a profile all is well, without one the remedy is the profile.
    #[test]
    fn ubuntu_needs_a_profile() {
        let ubuntu = NamespaceSettings {
            apparmor: Some(1),
            profile: profile(),
            ..NamespaceSettings::default()
        };
        let finding = judge_namespaces(Err(Errno::ACCESS.into()), &ubuntu, false);
        assert_eq!(finding.status, Status::Missing);
        assert!(finding.detail.contains("AppArmor"), "{}", finding.detail);
        let program = std::env::current_exe().unwrap().display().to_string();
        let profile = format!("profile belljar {program} flags=(unconfined)");
        assert!(finding.remedies[0].contains(&profile), "{finding:?}");
        assert_eq!(judge_namespaces(Ok(()), &ubuntu, false).status, Status::Ok);
    }

    #[test]
    fn open_files_are_told_in_sessions() {
        assert_eq!(open_files(None).status, Status::Ok);
        let few = open_files(Some(512));
        assert_eq!(few.status, Status::Note);
        assert!(few.detail.contains("about 51 sessions"), "{}", few.detail);
        assert_eq!(open_files(Some(1 << 20)).status, Status::Ok);
    }

    #[test]
    fn a_directory_that_is_not_there_is_missing() {
        let scratch = tempfile::tempdir().unwrap();
        assert_ne!(temporary_files(scratch.path()).status, Status::Missing);
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
        assert_eq!(
            temporary_files(&scratch.path().join("gone")).status,
            Status::Missing
        );
    }

    #[test]
    fn environments_are_listed_or_their_remedy_told() {
        let none: [&str; 0] = [];
        assert_eq!(
            judge_environments(["default", "ml"].into_iter(), &none),
            Finding::ok("default, ml")
        );
        let empty = judge_environments([].into_iter(), &none);
        assert_eq!(empty.status, Status::Note);
        assert!(empty.remedies[0].starts_with("belljar env create"));
        assert_eq!(
            judge_environments([].into_iter(), &["'x' cannot be used"]).status,
            Status::Note
        );
    }

    #[test]
    fn a_finding_is_one_line_and_its_remedies_below() {
        let finding = Finding::missing("not\nhere")
            .remedy("get it")
            .remedy("or not");
        let shown = anstream::adapter::strip_str(&for_people("thing", &finding)).to_string();
        assert_eq!(
            shown,
            "MISSING  thing: not\n           here\n         do: get it\n         do: or not"
        );
        let line: serde_json::Value = serde_json::from_str(&in_json("thing", &finding)).unwrap();
        assert_eq!(line["status"], "missing");
        assert_eq!(line["remedy"], "get it\nor not");
        let line: serde_json::Value =
            serde_json::from_str(&in_json("thing", &Finding::ok("x"))).unwrap();
        assert_eq!(
            (&line["status"], &line["remedy"]),
            (&"ok".into(), &serde_json::Value::Null)
        );
    }
}
