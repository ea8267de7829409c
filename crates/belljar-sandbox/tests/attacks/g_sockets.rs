//! G6: families and options of sockets.

use crate::harness::{Case, Severity};

/// Prints what opens, of all families, kinds and the protocols that matter.
const EVERY_SOCKET: &str = r"
import errno, socket
def opened(make, protocols):
    found, refused = [], set()
    for family in range(64):
        for kind in (1, 2, 3, 4, 5, 6, 10):
            for protocol in protocols:
                try: made = make(family, kind, protocol)
                except OSError as error:
                    # Of those of the internet none reaches the kernel, which would look for a module.
                    if family != socket.AF_UNIX:
                        refused.add(errno.errorcode[error.errno])
                    continue
                found.append((family, kind, protocol))
                for one in made if isinstance(made, tuple) else (made,): one.close()
    return found, sorted(refused)
";

#[tokio::test(flavor = "multi_thread")]
async fn g6_families() {
    let case = Case::begin(
        "G6",
        Severity::Escape,
        "sockets of every family: netlink, packet, vsock, crypto, key, XDP, TIPC, …; raw sockets; SCTP, MPTCP, ICMP, DCCP, UDP-Lite",
        "EAFNOSUPPORT, but for local, TCP and UDP sockets",
    )
    .await;
    let code = format!(
        "{EVERY_SOCKET}{}",
        "print(*opened(socket.socket, (0, 1, 2, 6, 17, 33, 47, 58, 132, 136, 255, 262)), sep='\\n')"
    );
    // Netlink, packet and raw IP. Not all of them: for each that it does not know, a kernel with modules starts a program
    // that looks for one.
    let some = "import socket\nfor one in (16, 3, 0), (17, 3, 0), (2, 3, 1): socket.socket(*one).close()\nprint(1)";
    let control = case.control(some).await;
    assert_eq!(control.stdout, "1\n", "{control:?}");
    let session = case.session().await;
    let text = case.printed(&session, code).await;
    // The kernel takes 0 and 1 for local sockets.
    assert_eq!(
        text,
        "[(1, 1, 0), (1, 1, 1), (1, 2, 0), (1, 2, 1), (1, 5, 0), (1, 5, 1), \
        (2, 1, 0), (2, 1, 6), (2, 2, 0), (2, 2, 17), \
        (10, 1, 0), (10, 1, 6), (10, 2, 0), (10, 2, 17)]\n['EAFNOSUPPORT']\n"
    );
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g6a_pairs() {
    let case = Case::begin(
        "G6a",
        Severity::Escape,
        "socketpair of every family",
        "EAFNOSUPPORT, but for local sockets",
    )
    .await;
    let code = format!("{EVERY_SOCKET}print(*opened(socket.socketpair, (0,)), sep='\\n')");
    // A local socket of the kind RAW, which is a datagram socket.
    let one = "import socket\nprint(len(socket.socketpair(1, 3, 0)))";
    let control = case.control(one).await;
    assert_eq!(control.stdout, "2\n", "{control:?}");
    let session = case.session().await;
    assert_eq!(
        case.printed(&session, code).await,
        "[(1, 1, 0), (1, 2, 0), (1, 5, 0)]\n['EAFNOSUPPORT']\n"
    );
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g6b_options() {
    let case = Case::begin(
        "G6b",
        Severity::Escape,
        "setsockopt: TCP_ULP, TCP_CONGESTION, TCP_REPAIR, tables of the packet filter, SO_MARK, transparent proxying",
        "ENOPROTOOPT or EPERM",
    )
    .await;
    let code = r#"
import errno, socket
for level, option, value in (
    (socket.IPPROTO_TCP, 31, b"tls"),  # TCP_ULP
    (socket.IPPROTO_TCP, 13, b"reno"),  # TCP_CONGESTION
    (socket.IPPROTO_TCP, 19, b"\1\0\0\0"),  # TCP_REPAIR
    (socket.IPPROTO_IP, 64, bytes(100)),  # IPT_SO_SET_REPLACE
    (socket.IPPROTO_IP, 19, b"\1\0\0\0"),  # IP_TRANSPARENT
    (socket.SOL_SOCKET, 36, b"\1\0\0\0"),  # SO_MARK
):
    try: socket.socket().setsockopt(level, option, value); print("done")
    except OSError as error: print(errno.errorcode[error.errno])
"#;
    let control = case.control(code).await;
    assert!(
        !control.stdout.contains("ENOPROTOOPT") && !control.stdout.contains("EPERM"),
        "{control:?}"
    );
    let session = case.session().await;
    assert_eq!(
        case.printed(&session, code).await,
        "ENOPROTOOPT\nENOPROTOOPT\nENOPROTOOPT\nEPERM\nEPERM\nENOPROTOOPT\n"
    );
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g6c_programs_for_the_kernel() {
    let case = Case::begin(
        "G6c",
        Severity::Escape,
        "setsockopt SO_ATTACH_FILTER: a program that the kernel compiles and runs",
        "ENOPROTOOPT",
    )
    .await;
    let code = r#"
import ctypes, errno, socket, struct
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_char_p)]
libc = ctypes.CDLL(None, use_errno=True)
program = Program(1, struct.pack("HBBI", 6, 0, 0, 0xFFFF))
for family, kind in ((socket.AF_INET, socket.SOCK_DGRAM), (socket.AF_UNIX, socket.SOCK_DGRAM)):
    one = socket.socket(family, kind)
    result = libc.setsockopt(one.fileno(), socket.SOL_SOCKET, 26, ctypes.byref(program), ctypes.sizeof(program))
    print("done" if result == 0 else errno.errorcode[ctypes.get_errno()])
"#;
    let control = case.control(code).await;
    assert_eq!(control.stdout, "done\ndone\n", "{control:?}");
    let session = case.session().await;
    assert_eq!(
        case.printed(&session, code).await,
        "ENOPROTOOPT\nENOPROTOOPT\n"
    );
    case.end([session]).await;
}
