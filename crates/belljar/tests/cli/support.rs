//! Running the program in a directory of its own, and looking for what it leaves behind.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

pub(crate) const BELLJAR: &str = env!("CARGO_BIN_EXE_belljar");

/// A directory of one test: `work`, where commands run, and `tmp`, which is their `TMPDIR`.
pub(crate) struct Scratch(pub(crate) tempfile::TempDir);

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    #[track_caller]
    pub(crate) fn exits_with(self, code: i32) -> Self {
        assert_eq!(self.status.code(), Some(code), "{self:#?}");
        self
    }

    #[track_caller]
    pub(crate) fn prints(self, stdout: &str) -> Self {
        assert_eq!(self.stdout, stdout, "{self:#?}");
        self
    }

    #[track_caller]
    pub(crate) fn says(self, part: &str) -> Self {
        assert!(self.stderr.contains(part), "no {part:?} in {self:#?}");
        self
    }

    #[track_caller]
    pub(crate) fn says_nothing(self) -> Self {
        assert_eq!(self.stderr, "", "{self:#?}");
        self
    }

    /// Standard output as JSON, one value a line.
    pub(crate) fn lines(&self) -> Vec<Value> {
        let parse = |line: &str| serde_json::from_str(line).unwrap();
        self.stdout.lines().map(parse).collect()
    }
}

impl Scratch {
    pub(crate) fn new() -> Self {
        let scratch = Self(tempfile::tempdir().unwrap());
        for name in ["work", "tmp"] {
            fs::create_dir(scratch.0.path().join(name)).unwrap();
        }
        scratch
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join("work").join(name)
    }

    pub(crate) fn write(&self, name: &str, contents: &str) {
        fs::write(self.path(name), contents).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub(crate) fn prepare(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.path(""))
            .env("TMPDIR", self.0.path().join("tmp"))
            .env_remove("BELLJAR_LOG")
            .env_remove("BELLJAR_LOG_FORMAT")
            .env_remove("OTEL_EXPORTER_OTLP_ENDPOINT")
            // Settings and the language of whoever runs the tests are theirs.
            .env_remove("BELLJAR_CONFIG")
            .env("XDG_CONFIG_HOME", self.0.path().join("config"))
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs `belljar` with this on its standard input, to its end.
    pub(crate) fn feed(&self, input: &str, arguments: &[&str]) -> Ended {
        let mut child = self.prepare(BELLJAR).args(arguments).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).unwrap();
        drop(stdin);
        self.finish(child)
    }

    pub(crate) fn belljar(&self, arguments: &[&str]) -> Ended {
        self.feed("", arguments)
    }

    /// `belljar exec --env bare …`.
    pub(crate) fn exec(&self, arguments: &[&str]) -> Ended {
        self.belljar(&[&["exec", "--env", bare()], arguments].concat())
    }

    /// Waits for a command, and for everything that it started to be gone.
    pub(crate) fn finish(&self, child: Child) -> Ended {
        let output = child.wait_with_output().unwrap();
        self.nothing_is_left();
        Ended {
            status: output.status,
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs `belljar exec --env bare …` on a terminal without colours; what the terminal gets.
    pub(crate) fn exec_on_a_terminal(&self, arguments: &[&str]) -> String {
        let mut command = self.prepare(BELLJAR);
        command
            .env("NO_COLOR", "1")
            .args(["exec", "--env", bare()])
            .args(arguments);
        self.on_a_terminal(&mut command)
    }

    /// Runs a command on a terminal; what the terminal gets.
    pub(crate) fn on_a_terminal(&self, command: &mut Command) -> String {
        command.stdin(Stdio::null());
        self.at_a_terminal(command, &[]).1
    }

    /// Runs a command on a terminal at which somebody types each line once its cue has come; how it
    /// ended, and what the terminal got.
    pub(crate) fn typed_at_a_terminal(
        &self,
        command: &mut Command,
        typed: &[(&str, &str)],
    ) -> (Ended, String) {
        command.stdin(Stdio::piped());
        self.at_a_terminal(command, typed)
    }

    /// Starts a command that reads from a terminal; also returns the terminal's other end.
    pub(crate) fn spawn_at_a_terminal(command: &mut Command) -> (Child, fs::File) {
        Self::spawn_with_terminal(command, true)
    }

    fn spawn_with_terminal(command: &mut Command, reads: bool) -> (Child, fs::File) {
        use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
        // Nobody else holds it: the command sees when it is closed.
        let controller =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let size = rustix::termios::Winsize {
            ws_row: 40,
            ws_col: 120,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        rustix::termios::tcsetwinsize(&controller, size).unwrap();
        let name = ptsname(&controller, Vec::new()).unwrap();
        let terminal = rustix::fs::open(
            name,
            rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC,
            rustix::fs::Mode::empty(),
        )
        .unwrap();
        if reads {
            command.stdin(terminal.try_clone().unwrap());
        }
        let child = command
            .stdout(terminal.try_clone().unwrap())
            .stderr(terminal)
            .spawn()
            .unwrap();
        // The command holds the terminal open, too.
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        (child, fs::File::from(controller))
    }

    fn at_a_terminal(&self, command: &mut Command, typed: &[(&str, &str)]) -> (Ended, String) {
        let (child, mut controller) = Self::spawn_with_terminal(command, !typed.is_empty());
        let (mut got, mut seen) = (Vec::new(), 0);
        let mut typed = typed.iter();
        let mut next = typed.next();
        let mut part = [0; 4096];
        // It ends with an error when the last one who has the terminal open is gone.
        while let Ok(read) = controller.read(&mut part) {
            if read == 0 {
                break;
            }
            got.extend_from_slice(&part[..read]);
            while let Some((cue, line)) = next {
                let Some(at) = find(&got[seen..], cue.as_bytes()) else {
                    break;
                };
                seen += at + cue.len();
                controller
                    .write_all(format!("{line}\n").as_bytes())
                    .unwrap();
                next = typed.next();
            }
        }
        let ended = self.finish(child);
        assert_eq!(
            next,
            None,
            "this cue did not come: {}",
            String::from_utf8_lossy(&got)
        );
        // The kernel's terminal writes a line feed as both.
        (ended, String::from_utf8(got).unwrap().replace("\r\n", "\n"))
    }

    /// Starts a cell that prints a line, and returns once that line was printed.
    pub(crate) fn start(&self, arguments: &[&str], code: &str) -> Child {
        let mut child = self
            .prepare(BELLJAR)
            .args(["exec", "--env", bare()])
            .args(arguments)
            .arg(code)
            .spawn()
            .unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut first)
            .unwrap();
        if first != "started\n" {
            let mut why = String::new();
            let mut stderr = child.stderr.take().unwrap();
            stderr.read_to_string(&mut why).unwrap();
            panic!("the cell did not start: {first:?} {why}");
        }
        child
    }

    /// A name that stands in the paths of this test and of no other.
    pub(crate) fn marker(&self) -> &str {
        self.0.path().file_name().unwrap().to_str().unwrap()
    }

    /// Directories of engines, and processes behind walls, that this test has caused.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let mut found = Vec::new();
        let user = rustix::process::getuid().as_raw();
        let engines = self.0.path().join(format!("tmp/belljar-{user}"));
        for entry in fs::read_dir(engines).into_iter().flatten().flatten() {
            found.push(format!("directory {}", entry.path().display()));
        }
        found.extend(
            self.processes()
                .iter()
                .map(|name| format!("process {name}")),
        );
        found
    }

    /// Names of the processes behind this test's walls. The keeper writes its log into our
    /// `TMPDIR`, and the others see the driver that is mounted from there.
    pub(crate) fn processes(&self) -> Vec<String> {
        let marker = self.marker();
        let entries = || fs::read_dir("/proc").unwrap().flatten();
        let sees_us = |path: &Path| {
            fs::read_to_string(path.join("mountinfo")).is_ok_and(|text| text.contains(marker))
        };
        // A session's processes have no list of mounts; they are in the pid namespace of an init that has.
        let namespace = |path: &Path| fs::read_link(path.join("ns/pid")).ok();
        let mut namespaces: BTreeSet<PathBuf> = entries()
            .filter(|entry| sees_us(&entry.path()))
            .filter_map(|entry| namespace(&entry.path()))
            .collect();
        namespaces.retain(|name| Some(name) != namespace(Path::new("/proc/self")).as_ref());
        let mut found = Vec::new();
        for entry in entries() {
            let path = entry.path();
            let Ok(name) = fs::read_to_string(path.join("comm")) else {
                continue;
            };
            let logs_here = fs::read_link(path.join("fd/2"))
                .is_ok_and(|log| log.to_string_lossy().contains(marker));
            let is_inside = || namespace(&path).is_some_and(|name| namespaces.contains(&name));
            if logs_here || sees_us(&path) || is_inside() {
                found.push(name.trim().to_owned());
            }
        }
        found
    }

    #[track_caller]
    pub(crate) fn nothing_is_left(&self) {
        eventually(|| self.leftovers(), Vec::is_empty);
    }
}

/// Asks until the answer is right, at most ten seconds.
#[track_caller]
pub(crate) fn eventually<T: std::fmt::Debug>(ask: impl Fn() -> T, right: impl Fn(&T) -> bool) -> T {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let answer = ask();
        if right(&answer) {
            return answer;
        }
        assert!(Instant::now() < deadline, "it stays at {answer:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The engines' cgroups whose engine is a process with this id.
pub(crate) fn cgroups_of(process: u32) -> Vec<PathBuf> {
    fn search(directory: &Path, start: &str, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if entry.file_name().to_string_lossy().starts_with(start) {
                    found.push(entry.path());
                }
                search(&entry.path(), start, found);
            }
        }
    }
    let mut found = Vec::new();
    for line in fs::read_to_string("/proc/self/mountinfo").unwrap().lines() {
        let (mount, kind) = line.split_once(" - ").unwrap();
        if kind.starts_with("cgroup") {
            let point = mount.split(' ').nth(4).unwrap();
            search(Path::new(point), &format!("belljar-{process}-"), &mut found);
        }
    }
    found
}

/// The environment without packages; its name.
pub(crate) fn bare() -> &'static str {
    static THERE: std::sync::Once = std::sync::Once::new();
    let env = |action: &str| {
        let command = Command::new(BELLJAR).args(["env", action, "bare"]).output();
        let output = command.unwrap();
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), why)
    };
    THERE.call_once(|| {
        if !env("show").0 {
            let (_, why) = env("create");
            // Another test process may have been faster, which is as good.
            assert!(env("show").0, "the environment `bare` is missing: {why}");
        }
    });
    "bare"
}

/// The environment with the data libraries; its name. It takes too long to be built in a test.
pub(crate) fn default_environment() -> &'static str {
    let output = Command::new(BELLJAR)
        .args(["env", "show", "default"])
        .output();
    let output = output.unwrap();
    assert!(
        output.status.success(),
        "the environment `default` is missing, run .ci/run environment: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    "default"
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}
