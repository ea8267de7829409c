//! The proxy against servers that the tests make, each test in a network namespace of its own.
//!
//! They need `unshare` and `mount` (util-linux), `ip` (iproute2), and for one test `openssl` and
//! `python3`; they fail with the reason without them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which clippy does not see as tests"
)]

mod sessions;
mod world;

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use belljar_sandbox::protocol::{Denial, DeniedReason, Traffic};
use belljar_sandbox::{AllowList, Proxy};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{broadcast, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;

use world::{PATIENCE, PUBLIC, in_namespace, run};

const TLS_ALERT: [u8; 7] = [21, 3, 1, 0, 2, 2, 49];
const LIST: &[&str] = &[
    "site.test",
    "*.site.test",
    "site.test:2222",
    "site.test:8080",
];

/// A session as the proxy sees it.
struct Session {
    address: SocketAddr,
    proxy: Proxy,
    denials: mpsc::Receiver<Denial>,
}

impl Session {
    fn start(list: &[&str]) -> Self {
        Self::with_room(list, 64)
    }

    fn with_room(list: &[&str], denials: usize) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, denials) = mpsc::channel(denials);
        let proxy = Proxy::start(listener, AllowList::parse(list).unwrap(), sender).unwrap();
        Self {
            address,
            proxy,
            denials,
        }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Says something and returns all of the answer.
    async fn say(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut stream = self.connect().await;
        stream.write_all(bytes.as_ref()).await.unwrap();
        String::from_utf8(read_all(&mut stream).await).unwrap()
    }

    async fn get(&self, authority: &str) -> String {
        let head = format!("GET http://{authority}/ HTTP/1.1\r\nHost: {authority}\r\n\r\n");
        self.say(head).await
    }

    /// Asks for a tunnel that is refused.
    async fn refused_tunnel(&self, authority: &str) -> String {
        self.say(format!("CONNECT {authority} HTTP/1.1\r\n\r\n"))
            .await
    }

    /// A tunnel, with nothing said through it yet.
    async fn tunnel(&self, authority: &str) -> TcpStream {
        const ANSWER: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";
        let mut stream = self.connect().await;
        let head = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = vec![0; ANSWER.len()];
        let read = timeout(PATIENCE, stream.read_exact(&mut answer)).await;
        read.unwrap().unwrap();
        assert_eq!(answer, ANSWER, "{}", String::from_utf8_lossy(&answer));
        stream
    }

    /// The one denial that was reported since the last look.
    fn denial(&mut self) -> (String, u16, DeniedReason) {
        let Denial { host, port, reason } = self.denials.try_recv().expect("a report");
        assert!(self.denials.try_recv().is_err(), "a second report");
        (host, port, reason)
    }

    fn assert_no_denial(&mut self) {
        let denial = self.denials.try_recv();
        assert!(denial.is_err(), "{denial:?}");
    }
}

async fn read_all(stream: &mut TcpStream) -> Vec<u8> {
    let mut answer = Vec::new();
    let read = timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
    read.expect("an end").unwrap();
    answer
}

fn counted(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).unwrap().to_be_bytes();
    [&length, bytes].concat()
}

/// A TLS greeting with these extensions.
fn greeting(extensions: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let extensions: Vec<u8> = extensions
        .iter()
        .flat_map(|(kind, content)| [&kind.to_be_bytes()[..], &counted(content)].concat())
        .collect();
    let suites = counted(&[0x13, 0x01]);
    let extensions = counted(&extensions);
    let body = [&[3, 3][..], &[7; 32], &[0], &suites, &[1, 0], &extensions].concat();
    let length = u16::try_from(body.len()).unwrap().to_be_bytes();
    let message = [&[1, 0][..], &length, &body].concat();
    [&[22, 3, 1][..], &counted(&message)].concat()
}

fn server_name(name: &str) -> (u16, Vec<u8>) {
    let entry = [&[0][..], &counted(name.as_bytes())].concat();
    (0, counted(&entry))
}

#[test]
fn allowed_hosts_are_reached_and_bytes_are_counted() {
    in_namespace(
        "allowed_hosts_are_reached_and_bytes_are_counted",
        |world| async move {
            let mut session = Session::start(LIST);
            let mut received = 0;

            // Plain, by every way to write an allowed name.
            for authority in [
                "site.test",
                "SITE.Test.",
                "a.b.site.test:80",
                "site.test:8080",
            ] {
                let answer = session.get(authority).await;
                assert!(
                    answer.starts_with("HTTP/1.1 200 OK"),
                    "{authority}: {answer}"
                );
                assert!(
                    answer.contains("\r\n\r\nGET / HTTP/1.1\r\nHost: "),
                    "{answer}"
                );
                received += answer.len() as u64;
            }
            let post = "POST http://site.test/path?q HTTP/1.1\r\nHost: site.test\r\n\
                        Proxy-Authorization: Basic secret\r\nContent-Length: 5\r\n\r\n";
            let mut stream = session.connect().await;
            // A body that comes later.
            stream.write_all(post.as_bytes()).await.unwrap();
            world.web.wait_for(|seen| seen.connections == 5).await;
            stream.write_all(b"hello").await.unwrap();
            let answer = String::from_utf8(read_all(&mut stream).await).unwrap();
            let passed_on = "POST /path?q HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n\
                             Content-Length: 5\r\n\r\nhello";
            assert!(answer.ends_with(passed_on), "{answer}");
            received += answer.len() as u64;

            // TLS, with the greeting in one piece and in many.
            for (authority, name, size) in [
                ("site.test:443", "site.test", 1000),
                ("site.test.:443", "SITE.test", 1),
                ("WWW.site.test:443", "www.site.test.", 7),
            ] {
                let mut tunnel = session.tunnel(authority).await;
                let said = [greeting(&[server_name(name)]), b"more".to_vec()].concat();
                for part in said.chunks(size) {
                    tunnel.write_all(part).await.unwrap();
                }
                let mut heard = vec![0; said.len()];
                timeout(PATIENCE, tunnel.read_exact(&mut heard))
                    .await
                    .unwrap()
                    .unwrap();
                assert_eq!(heard, said);
                tunnel.shutdown().await.unwrap();
                assert_eq!(read_all(&mut tunnel).await, [0; 0]);
                received += said.len() as u64;
            }

            session.assert_no_denial();
            let sent = world.web.seen().bytes.len() + world.echo.seen().bytes.len();
            let expected = Traffic {
                connections: 8,
                bytes_sent: sent as u64,
                bytes_received: received,
                ..Traffic::default()
            };
            assert_eq!(session.proxy.traffic(), expected);
        },
    );
}

/// I2, I3, I5: an allowed name that leads to an inner address, alone, among others or by an alias;
/// the list allows what it wants.
#[test]
fn names_that_lead_inside_are_denied() {
    in_namespace("names_that_lead_inside_are_denied", |world| async move {
        let mut session = Session::start(LIST);
        for name in [
            "private",
            "metadata",
            "carrier",
            "loopback",
            "zero",
            "unique",
            "mapped",
            "translated",
            "mixed",
            "both",
            "alias",
        ] {
            let host = format!("{name}.site.test");
            let answer = session.get(&host).await;
            assert!(
                answer.starts_with("HTTP/1.1 403 belljar: "),
                "{host}: {answer}"
            );
            let refused = DeniedReason::RefusedAddress;
            assert_eq!(session.denial(), (host.clone(), 80, refused));
            let answer = session.refused_tunnel(&format!("{host}:443")).await;
            assert!(
                answer.starts_with("HTTP/1.1 403 belljar: "),
                "{host}: {answer}"
            );
            assert_eq!(session.denial(), (host, 443, refused));
        }
        assert_eq!(world.secret.seen().connections, 0);
        assert_eq!(session.proxy.traffic().connections, 0);
    });
}

/// I5: the address that was checked is the address that is used, and each connection asks anew.
#[test]
fn a_rebound_name_gains_nothing() {
    in_namespace("a_rebound_name_gains_nothing", |world| async move {
        let mut session = Session::start(LIST);
        let answer = session.get("rebound.site.test").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        // One question for each kind of address: no second look between check and connect.
        assert_eq!(world.asked(), ["rebound.site.test"; 2]);
        let answer = session.get("rebound.site.test").await;
        assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
        let (_, _, reason) = session.denial();
        assert_eq!(reason, DeniedReason::RefusedAddress);
        assert_eq!(world.secret.seen().connections, 0);
    });
}

/// I2: addresses in every spelling, also behind a redirect.
#[test]
fn addresses_are_denied_in_every_spelling() {
    in_namespace(
        "addresses_are_denied_in_every_spelling",
        |world| async move {
            let mut session = Session::start(LIST);
            for host in [
                "169.254.169.254",
                "169.254.169.254.",
                "169.254.43518",
                "2852039166",
                "0xA9FEA9FE",
                "0xa9.0xfe.0xa9.0xfe",
                "0251.0376.0251.0376",
                "127.1",
                "0",
                "93.184.215.14",
                "[::ffff:169.254.169.254]",
                "[::ffff:a9fe:a9fe]",
                "[fd00:ec2::254]",
                "[::1]",
            ] {
                let answer = session.get(host).await;
                assert!(answer.starts_with("HTTP/1.1 403"), "{host}: {answer}");
                let literal = DeniedReason::AddressLiteral;
                assert_eq!(session.denial(), (host.to_owned(), 80, literal));
                session.refused_tunnel(&format!("{host}:443")).await;
                assert_eq!(session.denial(), (host.to_owned(), 443, literal));
            }
            assert_eq!(world.asked(), [""; 0]);
            assert_eq!(
                world.echo.seen().connections + world.web.seen().connections,
                0
            );

            let head = "GET http://site.test/away HTTP/1.1\r\nHost: site.test\r\n\r\n";
            let answer = session.say(head).await;
            assert!(
                answer.contains("Location: http://169.254.169.254/"),
                "{answer}"
            );
            session.get("169.254.169.254").await;
            session.denial();
            assert_eq!(world.secret.seen().connections, 0);
        },
    );
}

/// I4, I5: what is not on the list is denied, and nobody outside hears of it.
#[test]
fn what_is_not_listed_is_never_looked_up() {
    in_namespace(
        "what_is_not_listed_is_never_looked_up",
        |world| async move {
            let mut session =
                Session::start(&["site.test", "*.www.site.test", "other.site.test:8443"]);
            let not_listed = DeniedReason::NotListed;
            for (host, port, reason) in [
                ("deadbeef.evil.test", 443, not_listed),
                ("www.site.test", 443, not_listed),
                ("evilsite.test", 443, not_listed),
                ("site.test.evil.test", 443, not_listed),
                ("site.test", 22, not_listed),
                ("other.site.test", 443, not_listed),
                ("localhost", 443, not_listed),
                ("xn--ste-rma.test", 443, not_listed),
                ("s\u{456}te.test", 443, DeniedReason::InvalidName),
                ("site.test..", 443, DeniedReason::InvalidName),
                ("evil.test@site.test", 443, DeniedReason::InvalidName),
                ("site.test%00.evil.test", 443, DeniedReason::InvalidName),
            ] {
                let answer = session.refused_tunnel(&format!("{host}:{port}")).await;
                assert!(answer.starts_with("HTTP/1.1 403"), "{host}: {answer}");
                let told = host.as_bytes().escape_ascii().to_string();
                assert_eq!(session.denial(), (told, port, reason));
            }
            let answer = session.refused_tunnel("site.test:22").await;
            let text =
                "belljar: site.test:22 is not on this session's allow-list, which the host sets";
            assert!(
                answer.starts_with(&format!("HTTP/1.1 403 {text}\r\n")),
                "{answer}"
            );
            assert!(answer.ends_with(&format!("\r\n\r\n{text}\n")), "{answer}");
            session.denial();
            assert_eq!(world.asked(), [""; 0]);

            // A listed name that does not exist is not tried in the domains of the host.
            let answer = session.get("gone.www.site.test").await;
            assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
            session.assert_no_denial();
            let asked = world.asked();
            assert!(
                !asked.is_empty() && asked.iter().all(|name| name == "gone.www.site.test"),
                "{asked:?}"
            );
        },
    );
}

/// I5: a tunnel carries TLS to the host that it was asked for, and nothing else in either direction.
#[test]
fn a_tunnel_carries_tls_for_its_host_only() {
    in_namespace(
        "a_tunnel_carries_tls_for_its_host_only",
        |world| async move {
            let mut session = Session::start(LIST);
            let site = || server_name("site.test");
            let cases = [
                (
                    greeting(&[server_name("evil.test")]),
                    DeniedReason::ServerNameMismatch,
                ),
                (
                    greeting(&[server_name("www.site.test")]),
                    DeniedReason::ServerNameMismatch,
                ),
                (
                    greeting(&[server_name("93.184.215.14")]),
                    DeniedReason::ServerNameMismatch,
                ),
                (greeting(&[]), DeniedReason::NoServerName),
                (
                    greeting(&[site(), (0xfe0d, vec![0])]),
                    DeniedReason::EncryptedHello,
                ),
                (
                    greeting(&[site(), server_name("evil.test")]),
                    DeniedReason::NotTls,
                ),
                (b"SSH-2.0-OpenSSH_9.6\r\n".to_vec(), DeniedReason::NotTls),
                (
                    b"GET / HTTP/1.1\r\nHost: site.test\r\n\r\n".to_vec(),
                    DeniedReason::NotTls,
                ),
                (vec![22; 20_000], DeniedReason::NotTls),
            ];
            for port in [443, 2222] {
                for (bytes, reason) in &cases {
                    let mut tunnel = session.tunnel(&format!("site.test:{port}")).await;
                    tunnel.write_all(bytes).await.unwrap();
                    assert_eq!(read_all(&mut tunnel).await, TLS_ALERT, "{reason:?}");
                    assert_eq!(session.denial(), ("site.test".to_owned(), port, *reason));
                }
            }
            assert_eq!(world.banner.seen().connections, cases.len());
            assert_eq!(world.echo.seen().bytes, [0; 0]);
            assert_eq!(world.banner.seen().bytes, [0; 0]);
            let traffic = session.proxy.traffic();
            assert_eq!((traffic.bytes_sent, traffic.bytes_received), (0, 0));
        },
    );
}

/// I5: one request a connection, for the host that it names.
#[test]
fn plain_requests_are_not_smuggled() {
    in_namespace("plain_requests_are_not_smuggled", |world| async move {
        let mut session = Session::start(LIST);
        let get = "GET http://site.test/ HTTP/1.1\r\nHost: ";
        let answer = session.say(format!("{get}evil.test\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
        let mismatch = DeniedReason::HostMismatch;
        assert_eq!(session.denial(), ("site.test".to_owned(), 80, mismatch));

        let host = format!("{get}site.test\r\n");
        for (head, status) in [
            (format!("{host}Host: evil.test\r\n\r\n"), 400),
            (format!("{host}X: a\r\n b\r\n\r\n"), 400),
            (
                format!("{host}Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n"),
                400,
            ),
            (format!("{host}Transfer-Encoding: chunked\r\n\r\n"), 411),
            ("GET / HTTP/1.1\r\nHost: site.test\r\n\r\n".to_owned(), 400),
            ("PRI * HTTP/2.0\r\n\r\n".to_owned(), 400),
            (format!("{host}X: {}\r\n\r\n", "x".repeat(20_000)), 431),
        ] {
            let answer = session.say(&head).await;
            let status = format!("HTTP/1.1 {status} belljar: ");
            assert!(answer.starts_with(&status), "{head} {answer}");
        }
        session.assert_no_denial();
        assert_eq!(world.web.seen().connections, 0);

        let second = "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n";
        let answer = session.say(format!("{host}\r\n{second}")).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let seen = world.web.seen();
        assert_eq!(seen.connections, 1);
        assert!(!String::from_utf8(seen.bytes).unwrap().contains("evil"));
    });
}

/// A session that says little, and slowly, gets a timeout.
#[test]
fn slow_heads_and_greetings_end() {
    in_namespace("slow_heads_and_greetings_end", |_world| async move {
        let mut session = Session::start(LIST);
        let start = Instant::now();
        let drip = async |mut stream: TcpStream, bytes: &[u8]| {
            let (mut reader, mut writer) = stream.split();
            let drip = async {
                for byte in bytes.chunks(1).cycle() {
                    if writer.write_all(byte).await.is_err() {
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            };
            let mut answer = [0; 26];
            let read = reader.read(&mut answer);
            let length = tokio::select! { length = read => length.unwrap(), () = drip => 0 };
            answer[..length].to_vec()
        };
        let head = drip(session.connect().await, b"X");
        let hello = drip(
            session.tunnel("site.test:443").await,
            &[22, 3, 1, 0, 200, 1, 0, 0, 180],
        );
        let (head, hello) = tokio::join!(head, hello);
        assert_eq!(String::from_utf8_lossy(&head), "HTTP/1.1 408 belljar: the ");
        assert_eq!(hello, TLS_ALERT);
        let (_, _, reason) = session.denial();
        assert_eq!(reason, DeniedReason::NotTls);
        let elapsed = start.elapsed();
        assert!((9..20).contains(&elapsed.as_secs()), "{elapsed:?}");
    });
}

/// I11: of a hundred connections 64 are served at once, and the others as these end.
#[test]
fn a_hundred_connections_take_turns() {
    in_namespace("a_hundred_connections_take_turns", |world| async move {
        let session = Session::start(LIST);
        let (release, _) = broadcast::channel::<()>(1);
        let mut clients = JoinSet::new();
        for _ in 0..100 {
            let mut stream = session.connect().await;
            let mut released = release.subscribe();
            clients.spawn(async move {
                let head = b"CONNECT site.test:443 HTTP/1.1\r\n\r\n".to_vec();
                let greeting = greeting(&[server_name("site.test")]);
                let said = [head, greeting.clone()].concat();
                stream.write_all(&said).await.unwrap();
                let _ = released.recv().await;
                stream.shutdown().await.unwrap();
                assert!(read_all(&mut stream).await.ends_with(&greeting));
            });
        }
        world.echo.wait_for(|seen| seen.open == 64).await;
        // There is nothing to wait for: the others are not to come.
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(world.echo.seen().connections, 64);
        drop(release);
        while let Some(client) = clients.join_next().await {
            client.unwrap();
        }
        let seen = world.echo.seen();
        assert_eq!((seen.connections, seen.most_open), (100, 64));
        assert_eq!(session.proxy.traffic().connections, 100);
    });
}

/// I11: a flood of denials takes time and no memory.
#[test]
fn a_flood_of_denials_is_counted_and_slowed() {
    in_namespace(
        "a_flood_of_denials_is_counted_and_slowed",
        |_world| async move {
            let mut session = Session::with_room(LIST, 2);
            let start = Instant::now();
            for _ in 0..130 {
                let answer = session.get("evil.test").await;
                assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
            }
            assert!(
                start.elapsed() > Duration::from_secs(2),
                "{:?}",
                start.elapsed()
            );
            let traffic = session.proxy.traffic();
            assert_eq!((traffic.denials, traffic.denials_unreported), (130, 128));
            assert!(session.denials.try_recv().is_ok() && session.denials.try_recv().is_ok());
            assert!(session.denials.try_recv().is_err());
        },
    );
}

#[test]
fn a_dropped_proxy_ends_all() {
    in_namespace("a_dropped_proxy_ends_all", |world| async move {
        let session = Session::start(LIST);
        let mut tunnel = session.tunnel("site.test:443").await;
        tunnel
            .write_all(&greeting(&[server_name("site.test")]))
            .await
            .unwrap();
        world.echo.wait_for(|seen| !seen.bytes.is_empty()).await;
        let Session {
            address,
            proxy,
            mut denials,
        } = session;
        drop(proxy);
        // The channel ends with the last of the tasks.
        assert_eq!(timeout(PATIENCE, denials.recv()).await.unwrap(), None);
        world.echo.wait_for(|seen| seen.open == 0).await;
        let closed = async { while TcpStream::connect(address).await.is_ok() {} };
        timeout(PATIENCE, closed)
            .await
            .expect("the listener to close");
        let _ = timeout(PATIENCE, tunnel.read_to_end(&mut Vec::new()))
            .await
            .unwrap();
    });
}

/// Real TLS, real clients: Python asks a server of OpenSSL by the usual variables.
#[test]
fn python_reaches_a_real_server() {
    in_namespace("python_reaches_a_real_server", |_world| async move {
        let mut session = Session::start(&["site.test:4433"]);
        let directory = tempfile::tempdir().unwrap();
        let openssl = |line: &str| {
            let mut command = Command::new("openssl");
            command.args(line.split(' ')).current_dir(&directory);
            command
        };
        let names = "-subj /CN=site.test -addext subjectAltName=DNS:site.test";
        let request = "req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out certificate.pem";
        run(openssl(&format!("{request} {names}")), "openssl");
        let serve =
            format!("s_server -accept {PUBLIC}:4433 -key key.pem -cert certificate.pem -www");
        let mut server = openssl(&serve)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while TcpStream::connect((PUBLIC, 4433)).await.is_err() {
            assert!(server.try_wait().unwrap().is_none(), "openssl has ended");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }

        let ask = |url: &str| {
            let code = "import ssl, sys, urllib.request\n\
                        context = ssl.create_default_context(cafile='certificate.pem')\n\
                        try:\n    print(urllib.request.urlopen(sys.argv[1], timeout=20, context=context).status)\n\
                        except OSError as error:\n    print(error)\n";
            let mut command = Command::new("python3");
            command.args(["-c", code, url]).current_dir(&directory);
            command.env("https_proxy", format!("http://{}", session.address));
            command.env_remove("no_proxy").env_remove("NO_PROXY");
            tokio::task::spawn_blocking(move || run(command, "python3"))
        };
        let allowed = ask("https://site.test:4433/").await.unwrap();
        let denied = ask("https://evil.test/").await.unwrap();
        server.kill().unwrap();
        server.wait().unwrap();
        assert_eq!(allowed.trim(), "200");
        assert!(
            denied.contains("403 belljar: evil.test:443 is not on this"),
            "{denied}"
        );
        session.denial();
        assert!(session.proxy.traffic().bytes_received > 1000);
    });
}
