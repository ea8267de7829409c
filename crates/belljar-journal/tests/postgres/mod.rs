//! A real PostgreSQL server for tests.
//!
//! [`database`] has an empty database on a server that all tests share, whichever processes they are in: the first
//! starts it, and it ends some seconds after the last has gone, however that one went. [`Server`] is one of a test's
//! own, which it may restart and kill.

#![allow(
    dead_code,
    clippy::expect_used,
    reason = "not each test uses all of it, and a panic is the best report"
)]

use std::fmt::Write;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// PostgreSQL refuses root; then it is nobody's.
const NOBODY: u32 = 65534;

/// Starts the server, and ends it when nobody has locked the file `users` for some seconds: the kernel frees the lock of
/// a process that dies. Nothing of it is left then.
const SERVE: &str = r#"
exec 9>>"$1/users"
"$2/postgres" -D "$1/data" >>"$1/log" 2>&1 9>&- &
server=$!
echo $server >"$1/pid"
quiet=0
while [ $quiet -lt 3 ]; do
    sleep 1
    if flock -n -x 9; then quiet=$((quiet + 1)); flock -u 9; else quiet=0; fi
done
flock -x 9
kill -QUIT "$(cat "$1/pid")"
wait $server
rm -rf "$1"
"#;

const SETTINGS: &str = "listen_addresses = ''\nmax_connections = 300\nshared_buffers = 64MB\n\
    fsync = off\nfull_page_writes = off\nlogging_collector = off\nlog_min_messages = warning\n";

/// The address of an empty database on the shared server.
pub(crate) fn database() -> String {
    static SERVER: OnceLock<Server> = OnceLock::new();
    let server = SERVER.get_or_init(Server::shared);
    server.database()
}

#[derive(Debug)]
pub(crate) struct Server {
    directory: PathBuf,
    /// Held while the server is needed.
    users: File,
}

impl Server {
    /// A server of this test's own.
    pub(crate) fn start(settings: &str) -> Self {
        let directory = own_directory();
        let mut init = as_user(&programs().join("initdb"), &directory);
        init.args([
            "--no-sync",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
            "--username=belljar",
        ]);
        let made = init
            .arg("--pgdata")
            .arg(directory.join("data"))
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        Self::serve(directory, &format!("{SETTINGS}{settings}"))
    }

    /// A replica of this server, which follows it.
    pub(crate) fn replica(&self) -> Self {
        let directory = own_directory();
        let mut copy = as_user(&programs().join("pg_basebackup"), &directory);
        copy.args(["--no-sync", "--checkpoint=fast", "--write-recovery-conf"]);
        copy.arg("--host").arg(&self.directory);
        copy.args(["--username=belljar", "--pgdata"]);
        let made = copy.arg(directory.join("data")).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        Self::serve(directory, "")
    }

    /// A server with the data that a script has put into `$PGDATA`, which it recovers first. `$TIME` is for the script.
    pub(crate) fn recovered(script: &str, time: &str) -> Self {
        let directory = own_directory();
        shell(&directory, script, time);
        let server = Self::serve(directory, "");
        let begin = Instant::now();
        while server.sql("postgres", "SELECT pg_is_in_recovery()") != "f" {
            assert!(begin.elapsed() < Duration::from_mins(1), "{}", server.log());
            std::thread::sleep(Duration::from_millis(50));
        }
        server
    }

    /// Runs a script with the programs of the server, as its owner.
    pub(crate) fn shell(&self, script: &str) {
        shell(&self.directory, script, "");
    }

    fn shared() -> Self {
        // Beside the tests of all crates.
        let tests = std::env::current_exe().unwrap();
        let lobby = tests.with_file_name("postgres");
        fs::create_dir_all(&lobby).unwrap();
        let starting = File::create(lobby.join("starting")).unwrap();
        starting.lock().unwrap();
        let address = lobby.join("address");
        if let Ok(directory) = fs::read_to_string(&address) {
            // Locked before anything else: then it stays.
            if let Ok(users) = File::open(Path::new(&directory).join("users"))
                && users.try_lock_shared().is_ok()
            {
                let server = Self {
                    directory: directory.into(),
                    users,
                };
                if server.answers() {
                    return server;
                }
            }
        }
        let server = Self::start("");
        fs::write(&address, server.directory.to_str().unwrap()).unwrap();
        server
    }

    #[allow(
        clippy::zombie_processes,
        reason = "it outlives this process, which must not wait for it"
    )]
    fn serve(directory: PathBuf, settings: &str) -> Self {
        let mut text = fs::read_to_string(directory.join("data/postgresql.conf")).unwrap();
        let socket = directory.display();
        writeln!(text, "unix_socket_directories = '{socket}'\n{settings}").unwrap();
        fs::write(directory.join("data/postgresql.conf"), text).unwrap();

        let users = directory.join("users");
        let made = as_user(Path::new("touch"), &directory)
            .arg(&users)
            .status()
            .unwrap();
        assert!(made.success());
        let users = File::open(users).unwrap();
        users.lock_shared().unwrap();
        let mut serve = as_user(Path::new("sh"), &directory);
        serve
            .args(["-c", SERVE, "sh"])
            .arg(&directory)
            .arg(programs());
        // A group of its own: a signal for the tests is not for it.
        serve.process_group(0).spawn().unwrap();
        let server = Self { directory, users };
        server.wait();
        server
    }

    /// An empty database.
    pub(crate) fn database(&self) -> String {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("test_{}_{count}", std::process::id());
        self.sql("postgres", &format!("CREATE DATABASE {name}"));
        self.address(&name)
    }

    pub(crate) fn address(&self, database: &str) -> String {
        let directory = self.directory.display();
        format!("postgres://belljar@localhost/{database}?host={directory}&sslmode=disable")
    }

    /// Lets the server speak TLS as this address, and returns the certificate.
    pub(crate) fn serve_tls(&self, ip: &str) -> PathBuf {
        let data = self.directory.join("data");
        let mut make = as_user(Path::new("openssl"), &data);
        make.args(["req", "-x509", "-newkey", "ec", "-pkeyopt"]);
        make.args(["ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]);
        make.args([
            "-keyout",
            "server.key",
            "-out",
            "server.crt",
            "-subj",
            "/CN=test",
        ]);
        make.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
        make.arg("-addext").arg(format!("subjectAltName=IP:{ip}"));
        assert!(make.status().unwrap().success());
        self.sql("postgres", "ALTER SYSTEM SET ssl = on");
        self.sql("postgres", "SELECT pg_reload_conf()");
        data.join("server.crt")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.join(".s.PGSQL.5432")
    }

    /// What psql prints for this statement.
    pub(crate) fn sql(&self, database: &str, statement: &str) -> String {
        let output = self.psql(database, statement);
        assert!(output.status.success(), "{statement}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn psql(&self, database: &str, statement: &str) -> std::process::Output {
        let mut psql = Command::new(programs().join("psql"));
        psql.args([
            "-X",
            "-q",
            "-A",
            "-t",
            "-v",
            "ON_ERROR_STOP=1",
            "-U",
            "belljar",
            "-h",
        ]);
        psql.arg(&self.directory)
            .args(["-d", database, "-c", statement]);
        psql.stdin(Stdio::null()).output().unwrap()
    }

    fn answers(&self) -> bool {
        self.psql("postgres", "SELECT 1").status.success()
    }

    fn wait(&self) {
        let begin = Instant::now();
        while !self.answers() {
            assert!(begin.elapsed() < Duration::from_mins(1), "{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What the server has logged.
    pub(crate) fn whole_log(&self) -> String {
        let log = fs::read(self.directory.join("log")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    fn log(&self) -> String {
        let log = self.whole_log();
        let first = log.lines().count().saturating_sub(20);
        log.lines().skip(first).collect::<Vec<_>>().join("\n")
    }

    fn pid(&self) -> String {
        let text = fs::read_to_string(self.directory.join("pid")).unwrap();
        text.trim().to_owned()
    }

    /// Ends one process of the server by force; it then ends all others, and recovers.
    pub(crate) fn kill_backend(&self) {
        let find = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' \
            AND pid <> pg_backend_pid() LIMIT 1";
        let found = self.psql("postgres", find);
        let found = String::from_utf8(found.stdout).unwrap();
        if let Some(process) = found.lines().next() {
            signal("-KILL", process);
        }
        std::thread::sleep(Duration::from_millis(50));
        self.wait();
    }

    /// Ends the server: `-INT` in order, `-KILL` as a crash.
    pub(crate) fn stop(&self, signal: &str) {
        let process = self.pid();
        // Those that serve a connection end after the server, and could still answer it.
        let mut processes = children(&process);
        self::signal(signal, &process);
        processes.push(process);
        let begin = Instant::now();
        while processes.iter().any(|process| is_there(process)) {
            assert!(begin.elapsed() < Duration::from_mins(1), "{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Starts the server again after [`stop`](Self::stop).
    pub(crate) fn start_again(&self) {
        const SCRIPT: &str = r#""$2/postgres" -D "$1/data" >>"$1/log" 2>&1 & echo $! >"$1/pid""#;
        let begin = Instant::now();
        // As long as processes of a killed server are there, a new one refuses to start.
        while !self.answers() {
            assert!(begin.elapsed() < Duration::from_mins(1), "{}", self.log());
            let mut serve = as_user(Path::new("sh"), &self.directory);
            serve
                .args(["-c", SCRIPT, "sh"])
                .arg(&self.directory)
                .arg(programs());
            serve.process_group(0).status().unwrap();
            let process = self.pid();
            while is_there(&process) && !self.answers() {
                assert!(begin.elapsed() < Duration::from_mins(1), "{}", self.log());
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// A new directory of the user who is to own the server.
pub(crate) fn directory() -> tempfile::TempDir {
    let directory = tempfile::Builder::new().prefix("belljar-pg-").tempdir();
    let directory = directory.unwrap();
    if fs::metadata(&directory).unwrap().uid() == 0 {
        chown(&directory, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    directory
}

fn own_directory() -> PathBuf {
    directory().keep()
}

/// Runs a script as the owner of the server in this directory.
fn shell(directory: &Path, script: &str, time: &str) {
    let others = std::env::var("PATH").unwrap_or_default();
    let mut shell = as_user(Path::new("sh"), directory);
    shell
        .args(["-euc", script])
        .env("PATH", format!("{}:{others}", programs().display()))
        .env("PGHOST", directory)
        .env("PGUSER", "belljar")
        .env("PGDATA", directory.join("data"))
        .env("TIME", time)
        .stderr(Stdio::piped());
    let output = shell.output().unwrap();
    assert!(output.status.success(), "{script}: {output:?}");
}

/// The processes that a process has started.
fn children(process: &str) -> Vec<String> {
    let path = Path::new("/proc").join(process).join("task").join(process);
    let children = fs::read_to_string(path.join("children")).unwrap_or_default();
    children.split_whitespace().map(str::to_owned).collect()
}

/// Not one that has ended and that nobody has waited for.
fn is_there(process: &str) -> bool {
    Path::new("/proc").join(process).join("exe").exists()
}

/// Sends a signal, such as `-KILL`.
pub(crate) fn signal(signal: &str, process: &str) {
    let mut kill = Command::new("sh");
    kill.args(["-c", "kill $1 $2", "sh", signal, process]);
    kill.stderr(Stdio::null()).status().unwrap();
}

/// A command of the user who owns the server, with none of our files open.
fn as_user(program: &Path, directory: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let owner = fs::metadata(directory).unwrap();
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        command.uid(owner.uid()).gid(owner.gid());
    }
    command
}

/// Where the server's programs are: the newest that is installed.
fn programs() -> PathBuf {
    static PROGRAMS: OnceLock<PathBuf> = OnceLock::new();
    let find = || {
        let installed = fs::read_dir("/usr/lib/postgresql")
            .into_iter()
            .flatten()
            .flatten();
        let versions = installed.map(|entry| entry.path().join("bin"));
        let found = versions.filter(|path| path.join("initdb").exists()).max();
        found.expect("PostgreSQL is not installed: apt-get install postgresql")
    };
    PROGRAMS.get_or_init(find).clone()
}
