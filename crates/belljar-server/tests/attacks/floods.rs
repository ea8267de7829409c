//! Clients that take what others need, by being many or slow.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use belljar_server::Tls;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::harness::{Case, Severity};
use crate::support::{Ask as _, Client, World, options, soon, taken, world_with};

/// Longer than a client may be too slow, on a busy machine.
const CUT_OFF: Duration = Duration::from_secs(50);

/// As many connections as there may be, and some more.
fn many() -> usize {
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let files = files.map_or(4096, |files| usize::try_from(files / 4).unwrap());
    files.min(4096) + 100
}

/// Many connections that have each said this, from this address of the host; those that are closed come again. All have
/// been there once.
async fn crowd(from: &'static str, to: SocketAddr, said: &'static str) -> JoinSet<()> {
    let (mut all, there) = (JoinSet::new(), Arc::new(Semaphore::new(0)));
    for _ in 0..many() {
        let there = Arc::clone(&there);
        all.spawn(async move {
            loop {
                if let Ok(mut stream) = connect(from, to).await {
                    let _ = stream.write_all(said.as_bytes()).await;
                    there.add_permits(1);
                    while matches!(stream.read(&mut [0; 1024]).await, Ok(1..)) {}
                }
                tokio::time::sleep(Duration::from_secs(5)).await;
            }
        });
    }
    let count = u32::try_from(many()).unwrap();
    drop(there.acquire_many(count).await.unwrap());
    all
}

async fn connect(from: &str, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(format!("{from}:0").parse().unwrap())?;
    socket.connect(to).await
}

/// The first line that is answered to one from this address, and how long it took.
async fn ask(from: &str, to: SocketAddr, request: &str) -> (String, Duration) {
    let began = Instant::now();
    let mut stream = connect(from, to).await.unwrap();
    let _ = stream.write_all(request.as_bytes()).await;
    let mut line = [0; 12];
    let read = stream.read_exact(&mut line);
    let read = tokio::time::timeout(Duration::from_secs(5), read).await;
    let line = match read {
        Ok(Ok(_)) => String::from_utf8_lossy(&line).into_owned(),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "nothing".to_owned(),
    };
    (line, began.elapsed())
}

/// Whoever comes is answered, from the address of the crowd or another, as long as it lasts.
async fn others_are_answered(world: &World, mut crowd: JoinSet<()>) {
    let client = world.client("other").await;
    let request = format!(
        "GET /v1/sessions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\r\n",
        client.key.text
    );
    for from in ["127.0.0.3", "127.0.0.2", "127.0.0.3"] {
        let (line, took) = ask(from, world.address, &request).await;
        assert_eq!(line, "HTTP/1.1 200", "from {from} after {took:?}");
        // Not because those before it were given up: that takes 10 seconds at least.
        assert!(took < Duration::from_secs(5), "{took:?}");
    }
    crowd.shutdown().await;
}

/// Half-sent requests of one address keep nobody out.
#[tokio::test(flavor = "multi_thread")]
async fn heavy_n9_half_sent_requests_take_no_connections_of_others() {
    let case = Case::begin(
        "N9",
        Severity::PeerDos,
        "more half-sent requests from one address than there may be connections",
        "others are answered within 5 s, from this address and from another",
    )
    .await;
    let world = &case.world;
    let half = "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nX: ";
    let crowd = crowd("127.0.0.2", world.address, half).await;
    others_are_answered(world, crowd).await;
    case.end().await;
}

/// Nor do requests without a key whose bodies don't come, though their heads are whole; nor those that are idle.
#[tokio::test(flavor = "multi_thread")]
async fn heavy_n10_unauthenticated_requests_take_no_connections_of_others() {
    let case = Case::begin(
        "N10",
        Severity::PeerDos,
        "as many logins without their bodies, and idle connections",
        "others are answered within 5 s",
    )
    .await;
    let world = &case.world;
    let login = "POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{";
    let logins = crowd("127.0.0.2", world.address, login).await;
    others_are_answered(world, logins).await;
    let idle = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let idle = crowd("127.0.0.2", world.address, idle).await;
    others_are_answered(world, idle).await;
    case.end().await;
}

/// Nor do handshakes of TLS that are never ended.
#[tokio::test(flavor = "multi_thread")]
async fn heavy_n11_half_done_handshakes_take_no_connections_of_others() {
    let case = Case::begin(
        "N11",
        Severity::PeerDos,
        "as many TLS handshakes that are never ended",
        "others shake hands and are answered",
    )
    .await;
    let directory = tempfile::tempdir().unwrap();
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key) = (
        directory.path().join("c.pem"),
        directory.path().join("k.pem"),
    );
    std::fs::write(&certificate, cert.pem()).unwrap();
    std::fs::write(&key, signing_key.serialize_pem()).unwrap();
    let tls = Arc::new(Tls::open(&certificate, &key).unwrap());
    let world = world_with(options(|options| options.tls = Some(tls))).await;
    // The beginning of a greeting of 512 bytes.
    let crowd = crowd(
        "127.0.0.2",
        world.address,
        "\x16\x03\x01\x02\x00\x01\x00\x01",
    )
    .await;
    let certificate = reqwest::Certificate::from_pem(cert.pem().as_bytes()).unwrap();
    let http = reqwest::Client::builder()
        .tls_certs_only([certificate])
        .timeout(Duration::from_secs(3));
    let url = format!("https://localhost:{}/openapi.json", world.address.port());
    let answer = http.build().unwrap().get(url).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    drop(crowd);
    case.end().await;
}

/// A crowd of strangers does not cut off who has a key.
#[tokio::test(flavor = "multi_thread")]
async fn waits_n12_a_crowd_cuts_nobody_off_who_has_a_key() {
    let case = Case::begin(
        "N12",
        Severity::PeerDos,
        "the same crowd while a tenant reads a stream",
        "the stream is read to its end",
    )
    .await;
    let world = &case.world;
    let client = world.client("a").await;
    let session = client.session().await;
    let code = "import time\nfor n in range(20): print(n, flush=True); time.sleep(0.5)";
    let mut events = client.stream(&session, code).await;
    events.next().await.unwrap();
    let half = "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nX: ";
    let crowd = crowd("127.0.0.1", world.address, half).await;
    let told = events.rest().await;
    assert_eq!(told.last().unwrap().kind, "outcome");
    drop(crowd);
    case.end().await;
}

/// A session with a file of so many megabytes; the path of the file.
async fn with_file(client: &Client, megabytes: u32) -> String {
    let session = client.session().await;
    let code = format!("open('large', 'wb').write(bytes({megabytes} << 20))");
    client.run(&session, &code).await;
    format!("{session}/files/large")
}

/// Asks for something, and takes so little of the answer each second.
async fn take_slowly(client: Client, address: SocketAddr, path: String, bytes: usize) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(address).await.unwrap();
    let key = &client.key.text;
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut part = vec![0; bytes];
    while matches!(stream.read(&mut part).await, Ok(1..)) {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Waits until clients that take too little have nothing any more. What the kernel has taken, it sends them still.
async fn assert_cut_off(world: &World, kind: &str) {
    let began = Instant::now();
    while taken(world, kind).await > 0 {
        assert!(
            began.elapsed() < CUT_OFF,
            "{kind} are held after {CUT_OFF:?}"
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Slow downloads of four tenants keep a fifth from nothing, and end.
#[tokio::test(flavor = "multi_thread")]
async fn waits_n13_slow_downloads_keep_nobody_waiting() {
    let case = Case::begin(
        "N13",
        Severity::PeerDos,
        "16 downloads at 256 bytes a second of each of four tenants",
        "a fifth downloads and uploads at once; the slow ones are cut off",
    )
    .await;
    let world = &case.world;
    let mut slow = JoinSet::new();
    for tenant in ["a", "b", "c", "d"] {
        let client = world.client(tenant).await;
        let path = with_file(&client, 16).await;
        for _ in 0..16 {
            slow.spawn(take_slowly(
                client.clone(),
                world.address,
                path.clone(),
                256,
            ));
        }
    }
    // All of them, of all four.
    soon(async || {
        let all = "belljar_permits_used{kind=\"transfers\",of=\"service\"} 64\n";
        world.metrics().await.contains(all)
    })
    .await;
    let other = world.client("e").await;
    let path = with_file(&other, 16).await;
    let whole = other.get(&path).with(200).await.bytes().await.unwrap();
    assert_eq!(whole.len(), 16 << 20);
    other.put(&path, "short").with(204).await;
    assert_cut_off(world, "transfers").await;
    slow.shutdown().await;
    case.end().await;
}

/// A slow upload ends, too; one that is not fast is taken.
#[tokio::test(flavor = "multi_thread")]
async fn waits_n14_slow_uploads_are_cut_off() {
    let case = Case::begin(
        "N14",
        Severity::PeerDos,
        "uploads at 1,000 bytes and at 1 byte a second",
        "408; at 10,000 bytes a second it is taken",
    )
    .await;
    let world = &case.world;
    let client = world.client("a").await;
    let session = client.session().await;
    let upload = async |bytes_each: usize| {
        let (address, key) = (world.address, &client.key.text);
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!(
            "PUT {session}/files/f HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\n\
             Content-Length: 400000\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let (mut from, mut to) = stream.into_split();
        let sending = async {
            for _ in 0..400_000 / bytes_each {
                tokio::time::sleep(Duration::from_secs(1)).await;
                if to.write_all(&vec![b'x'; bytes_each]).await.is_err() {
                    break;
                }
            }
        };
        let mut answer = [0; 12];
        let (_, read) = tokio::join!(
            tokio::time::timeout(CUT_OFF, sending),
            tokio::time::timeout(CUT_OFF, from.read_exact(&mut answer)),
        );
        read.expect("the slow upload went on").unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    };
    let (slow, slower, fast) = tokio::join!(upload(1000), upload(1), upload(10_000));
    assert_eq!(slow, "HTTP/1.1 408");
    assert_eq!(slower, "HTTP/1.1 408");
    assert_eq!(fast, "HTTP/1.1 204");
    case.end().await;
}

/// Answers that are not taken are not made without end: large ones are counted as downloads until they are sent, all
/// as requests, and their readers are cut off.
#[tokio::test(flavor = "multi_thread")]
async fn waits_n15_answers_that_are_not_taken_are_bounded() {
    let case = Case::begin(
        "N15",
        Severity::HostDos,
        "large answers that are not read",
        "16 at once, then 429; cut off; small requests are answered",
    )
    .await;
    let world = &case.world;
    let client = world.client("a").await;
    let session = client.session().await;
    let code = "for n in range(8000): open(f'{n:0100}', 'w').close()";
    client.run(&session, code).await;
    let path = format!("{session}/files");
    let mut unread = JoinSet::new();
    for _ in 0..16 {
        unread.spawn(take_slowly(
            client.clone(),
            world.address,
            path.clone(),
            256,
        ));
    }
    soon(async || taken(world, "transfers").await == 16).await;
    assert_eq!(taken(world, "requests").await, 16);
    client.get(&path).problem(429, "too_many_transfers").await;
    client.get(&session).with(200).await;
    let other = world.client("b").await;
    let path = with_file(&other, 1).await;
    other.get(&path).with(200).await;
    assert_cut_off(world, "requests").await;
    assert_cut_off(world, "transfers").await;
    unread.shutdown().await;
    client.post("/v1/sessions", json!({})).with(201).await;
    case.end().await;
}
