//! A small internet in a network namespace: addresses, name server, web servers.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{env, fs, io, thread};

use rustix::process::geteuid;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;

/// Longer than every limit that these tests run into.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
const INSIDE: &str = "BELLJAR_TEST_INSIDE_NAMESPACE";
/// Where the servers are that a session may reach.
pub(crate) const PUBLIC: Ipv4Addr = Ipv4Addr::new(93, 184, 215, 14);
pub(crate) const PRIVATE: Ipv4Addr = Ipv4Addr::new(10, 1, 2, 3);
const METADATA: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 254);
const CARRIER: Ipv4Addr = Ipv4Addr::new(100, 100, 100, 200);

/// Runs a test in namespaces of its own: this program once more, with that test alone.
pub(crate) fn in_namespace<F: Future<Output = ()>>(test: &str, body: impl FnOnce(World) -> F) {
    if env::var_os(INSIDE).is_some() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            // Tests that count threads wait for the end of the ones that look names up.
            .thread_keep_alive(Duration::from_millis(100))
            .build()
            .unwrap();
        return runtime.block_on(async { body(World::make().await).await });
    }
    let mut command = Command::new("unshare");
    if !geteuid().is_root() {
        command.arg("--map-root-user");
    }
    command.args(["--net", "--mount", "--"]);
    command.arg(env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]);
    command.env(INSIDE, "1");
    let said = run(command, "util-linux");
    assert!(said.contains("1 passed"), "the test did not run:\n{said}");
}

/// Runs a command that must succeed, and returns what it said.
pub(crate) fn run(mut command: Command, package: &str) -> String {
    let output = match command.output() {
        Ok(output) => output,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            panic!("{command:?} needs a tool that is not here: install `{package}`")
        }
        Err(error) => panic!("{command:?}: {error}"),
    };
    let said =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    let said = said.concat();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{said}",
        output.status
    );
    said
}

pub(crate) struct World {
    /// Every name that the name server was asked for, in order.
    pub(crate) queries: Arc<Mutex<Vec<String>>>,
    /// Plain HTTP, ports 80 and 8080 of the public address: answers with what it was asked.
    pub(crate) web: Server,
    /// Ports 443 and 8443 of the public address: says back whatever it hears.
    pub(crate) echo: Server,
    /// Port 2222 of the public address: speaks first.
    pub(crate) banner: Server,
    /// Behind every address that must not be reached.
    pub(crate) secret: Server,
}

impl World {
    async fn make() -> Self {
        let ip = |line: &str| {
            let mut command = Command::new("ip");
            command.args(line.split(' '));
            run(command, "iproute2");
        };
        ip("link set lo up");
        for address in [PUBLIC, PRIVATE, METADATA, CARRIER] {
            ip(&format!("address add {address}/32 dev lo"));
        }
        let queries = Arc::default();
        serve_names(Arc::clone(&queries));
        // The search domain and the dots would send every name to a domain of the host's first, and
        // the file of hosts would turn a name inward.
        let files = [
            (
                "resolv.conf",
                "nameserver 127.0.0.1\nsearch leak.test\noptions ndots:5\n",
            ),
            ("nsswitch.conf", "hosts: files dns\n"),
            ("hosts", "127.0.0.1 localhost site.test\n"),
        ];
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let file = directory.path().join(name);
            fs::write(&file, text).unwrap();
            let mut command = Command::new("mount");
            command.arg("--bind").arg(file).arg(format!("/etc/{name}"));
            run(command, "util-linux");
        }

        let at = |addresses: &[Ipv4Addr], ports: &[u16]| -> Vec<SocketAddr> {
            let pairs = addresses
                .iter()
                .flat_map(|address| ports.iter().map(|port| (*address, *port).into()));
            pairs.collect()
        };
        let inside = [PRIVATE, METADATA, CARRIER, Ipv4Addr::LOCALHOST];
        Self {
            queries,
            web: Server::start(&at(&[PUBLIC], &[80, 8080]), Manner::Web).await,
            echo: Server::start(&at(&[PUBLIC], &[443, 8443]), Manner::Echo).await,
            banner: Server::start(&at(&[PUBLIC], &[2222]), Manner::Banner).await,
            secret: Server::start(&at(&inside, &[80, 443]), Manner::Banner).await,
        }
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.queries.lock().unwrap().clone()
    }
}

/// What a server has seen.
#[derive(Clone, Default)]
pub(crate) struct Seen {
    pub(crate) connections: usize,
    pub(crate) open: usize,
    pub(crate) most_open: usize,
    pub(crate) bytes: Vec<u8>,
}

#[derive(Clone, Copy)]
enum Manner {
    Web,
    Echo,
    Banner,
}

pub(crate) struct Server(watch::Sender<Seen>);

impl Server {
    async fn start(addresses: &[SocketAddr], manner: Manner) -> Self {
        let seen = watch::Sender::new(Seen::default());
        for address in addresses {
            let listener = TcpListener::bind(address).await.unwrap();
            let seen = seen.clone();
            tokio::spawn(async move {
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    let seen = seen.clone();
                    seen.send_modify(|seen| {
                        seen.connections += 1;
                        seen.open += 1;
                        seen.most_open = seen.most_open.max(seen.open);
                    });
                    tokio::spawn(async move {
                        let _ = manner.talk(stream, &seen).await;
                        seen.send_modify(|seen| seen.open -= 1);
                    });
                }
            });
        }
        Self(seen)
    }

    pub(crate) fn seen(&self) -> Seen {
        self.0.borrow().clone()
    }

    pub(crate) async fn wait_for(&self, condition: impl FnMut(&Seen) -> bool) {
        let mut seen = self.0.subscribe();
        let waited = timeout(PATIENCE, seen.wait_for(condition)).await;
        assert!(waited.is_ok(), "the server never saw it");
    }
}

impl Manner {
    async fn talk(self, mut stream: TcpStream, seen: &watch::Sender<Seen>) -> io::Result<()> {
        if matches!(self, Self::Banner) {
            stream.write_all(b"SSH-2.0-secret\r\n").await?;
        }
        let mut said = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            let length = stream.read(&mut buffer).await?;
            if length == 0 {
                return Ok(());
            }
            said.extend_from_slice(&buffer[..length]);
            seen.send_modify(|seen| seen.bytes.extend_from_slice(&buffer[..length]));
            match self {
                Self::Banner => {}
                Self::Echo => stream.write_all(&buffer[..length]).await?,
                Self::Web => {
                    let text = String::from_utf8_lossy(&said);
                    let Some((head, body)) = text.split_once("\r\n\r\n") else {
                        continue;
                    };
                    let mut fields = head.lines().filter_map(|line| line.split_once(": "));
                    let length = fields.find(|(name, _)| *name == "Content-Length");
                    if length.is_some_and(|(_, length)| body.len() < length.parse().unwrap()) {
                        continue;
                    }
                    let status = if head.starts_with("GET /away ") {
                        "302 Found\r\nLocation: http://169.254.169.254/latest/meta-data/"
                    } else {
                        "200 OK"
                    };
                    let answer = format!("HTTP/1.1 {status}\r\nConnection: close\r\n\r\n{text}");
                    return stream.write_all(answer.as_bytes()).await;
                }
            }
        }
    }
}

/// Answers for names: `site.test`, its subdomains, and nothing else.
fn serve_names(queries: Arc<Mutex<Vec<String>>>) {
    let socket = UdpSocket::bind("127.0.0.1:53").unwrap();
    thread::spawn(move || {
        let mut times: BTreeMap<String, usize> = BTreeMap::new();
        loop {
            let mut packet = [0; 1232];
            let (length, from) = socket.recv_from(&mut packet).unwrap();
            let (name, kind, question) = read_question(&packet[..length]);
            queries.lock().unwrap().push(name.clone());
            let time = times.entry(format!("{name} {kind}")).or_default();
            *time += 1;
            if let Some(manner) = name.strip_suffix(".broken.site.test") {
                break_answer(&socket, manner, &packet[..length], from);
                continue;
            }
            let mut answer = packet[..2].to_vec();
            let records = records(&name, *time);
            let no_such_name = if records.is_none() { 3 } else { 0 };
            let records: Vec<Vec<u8>> = records
                .unwrap_or_default()
                .iter()
                .flat_map(|record| write_records(record, kind))
                .collect();
            let count = u8::try_from(records.len()).unwrap();
            answer.extend([0x81, 0x80 | no_such_name, 0, 1, 0, count, 0, 0, 0, 0]);
            answer.extend(question);
            answer.extend(records.concat());
            socket.send_to(&answer, from).unwrap();
        }
    });
}

/// A name server that means harm, or is out of order.
fn break_answer(socket: &UdpSocket, manner: &str, packet: &[u8], from: SocketAddr) {
    let (_, kind, question) = read_question(packet);
    let inner = write_address(&[0xc0, 12], PRIVATE.into(), kind).unwrap_or_default();
    let count = u8::from(!inner.is_empty());
    let head = |count| [0x81, 0x80, 0, 1, 0, count, 0, 0, 0, 0];
    let answer = match manner {
        "silent" => return,
        "empty" => Vec::new(),
        "short" => packet[..2].to_vec(),
        "noise" => vec![0xff; 400],
        // More records than there are, and none of them whole.
        "false-count" => [&packet[..2], &head(200), question, &[0xc0, 12, 0]].concat(),
        // A name that is its own end.
        "loop" => [
            &packet[..2],
            &head(1),
            question,
            &[0xc0, 0xff, 0, kind, 0, 1],
        ]
        .concat(),
        // The answer to a question that nobody asked.
        "other-question" => {
            let other = [&write_name("other.test")[..], &[0, kind, 0, 1]].concat();
            [&packet[..2], &head(count), &other, &inner].concat()
        }
        "other-id" => [
            &[packet[0] ^ 1, packet[1]],
            &head(count)[..],
            question,
            &inner,
        ]
        .concat(),
        // The alias of itself.
        "own-alias" => {
            let own = write_record(&[0xc0, 12], 5, &[0xc0, 12]);
            [&packet[..2], &head(1), question, &own].concat()
        }
        _ => [
            &packet[..2],
            &[0x81, 0x82, 0, 1, 0, 0, 0, 0, 0, 0][..],
            question,
        ]
        .concat(),
    };
    let _ = socket.send_to(&answer, from);
}

enum Record {
    Address(IpAddr),
    Alias(&'static str, Ipv4Addr),
    /// From the name of the question, or from the alias with this number, to the next alias.
    Link(usize),
    /// The address of the alias with this number.
    Last(usize, IpAddr),
}

impl Record {
    fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Address(address) => Some(*address),
            _ => None,
        }
    }
}

fn alias(number: usize) -> Vec<u8> {
    write_name(&format!("alias{number}.site.test"))
}

/// What a name leads to when it is asked for the first, the second, … time.
fn records(name: &str, time: usize) -> Option<Vec<Record>> {
    let address = |text: &str| Record::Address(text.parse().unwrap());
    let public = || Record::Address(PUBLIC.into());
    Some(match name {
        "site.test" | "www.site.test" | "a.b.site.test" => vec![public()],
        "metadata.site.test" => vec![Record::Address(METADATA.into())],
        "carrier.site.test" => vec![Record::Address(CARRIER.into())],
        "loopback.site.test" => vec![address("127.0.0.1")],
        "zero.site.test" => vec![address("0.0.0.0")],
        "unique.site.test" => vec![address("fd00:ec2::254")],
        "mapped.site.test" => vec![address("::ffff:10.1.2.3")],
        "translated.site.test" => vec![address("64:ff9b::a01:203")],
        "mixed.site.test" => vec![public(), Record::Address(PRIVATE.into())],
        "both.site.test" => vec![public(), address("::1")],
        "alias.site.test" => vec![Record::Alias("inner.corp.test", PRIVATE)],
        "rebound.site.test" if time == 1 => vec![public()],
        "private.site.test" | "rebound.site.test" => vec![Record::Address(PRIVATE.into())],
        _ => return made_up(name, time),
    })
}

/// Names that say what they lead to, in hexadecimal digits: `7f000001.then.site.test` is public when it is
/// asked for first and that address from then on, `.flips` each second time, `.hides` among twenty that are
/// public, `.with` beside one that is, `.chain` behind eight aliases.
fn made_up(name: &str, time: usize) -> Option<Vec<Record>> {
    let (digits, manner) = name.strip_suffix(".site.test")?.split_once('.')?;
    let inner: IpAddr = match digits.len() {
        8 => Ipv4Addr::from_bits(u32::from_str_radix(digits, 16).ok()?).into(),
        32 => Ipv6Addr::from_bits(u128::from_str_radix(digits, 16).ok()?).into(),
        _ => return None,
    };
    let (inner, public) = (Record::Address(inner), || Record::Address(PUBLIC.into()));
    let public_again = |number| Ipv4Addr::from_bits(PUBLIC.to_bits() + number);
    Some(match manner {
        "then" if time == 1 => vec![public()],
        "flips" if time % 2 == 1 => vec![public()],
        "then" | "flips" => vec![inner],
        "with" => vec![public(), inner],
        "hides" => {
            let others = (1..20).map(|number| Record::Address(public_again(number).into()));
            let mut all: Vec<Record> = [public()].into_iter().chain(others).collect();
            all.insert(13, inner);
            all
        }
        "chain" => {
            let mut all: Vec<Record> = (0..8).map(Record::Link).collect();
            all.push(Record::Last(8, inner.address()?));
            all
        }
        _ => return None,
    })
}

fn read_question(packet: &[u8]) -> (String, u8, &[u8]) {
    let mut labels = Vec::new();
    let mut at = 12;
    while packet[at] != 0 {
        let end = at + 1 + usize::from(packet[at]);
        labels.push(String::from_utf8_lossy(&packet[at + 1..end]).into_owned());
        at = end;
    }
    (labels.join("."), packet[at + 2], &packet[12..at + 5])
}

/// The records of the kind that was asked for.
fn write_records(record: &Record, kind: u8) -> Vec<Vec<u8>> {
    // The name of the question.
    let asked = [0xc0, 12];
    match record {
        Record::Address(address) => write_address(&asked, *address, kind).into_iter().collect(),
        Record::Alias(name, address) => {
            let name = write_name(name);
            let alias = write_record(&asked, 5, &name);
            let address = write_address(&name, (*address).into(), kind);
            [alias].into_iter().chain(address).collect()
        }
        Record::Link(number) => {
            let from = match number {
                0 => asked.to_vec(),
                _ => alias(*number),
            };
            vec![write_record(&from, 5, &alias(number + 1))]
        }
        Record::Last(number, address) => write_address(&alias(*number), *address, kind)
            .into_iter()
            .collect(),
    }
}

fn write_address(owner: &[u8], address: IpAddr, kind: u8) -> Option<Vec<u8>> {
    match (address, kind) {
        (IpAddr::V4(address), 1) => Some(write_record(owner, kind, &address.octets())),
        (IpAddr::V6(address), 28) => Some(write_record(owner, kind, &address.octets())),
        _ => None,
    }
}

fn write_record(owner: &[u8], kind: u8, data: &[u8]) -> Vec<u8> {
    let length = u8::try_from(data.len()).unwrap();
    [owner, &[0, kind, 0, 1, 0, 0, 0, 0, 0, length], data].concat()
}

fn write_name(name: &str) -> Vec<u8> {
    let labels = name
        .split('.')
        .flat_map(|label| [&[u8::try_from(label.len()).unwrap()], label.as_bytes()].concat());
    labels.chain([0]).collect()
}
