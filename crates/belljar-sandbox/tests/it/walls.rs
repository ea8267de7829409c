//! ENV-1 (local process): what code in a session sees and can't do.

use crate::support::{engine, good, printed, session};

/// Its own namespaces, a user without power, few descriptors, a clean environment.
#[tokio::test]
async fn env_1_posture() {
    let session = session().await;
    let text = printed(&session, "import os\nfor n in ('user', 'mnt', 'pid', 'net', 'ipc', 'uts', 'cgroup'): print(n, os.readlink(f'/proc/self/ns/{n}'))").await;
    for line in text.lines() {
        let (name, inside) = line.split_once(' ').unwrap();
        let outside = std::fs::read_link(format!("/proc/self/ns/{name}")).unwrap();
        assert_ne!(
            outside.to_str().unwrap(),
            inside,
            "{name} is shared with the host"
        );
    }
    let status = printed(&session, "print(open('/proc/self/status').read())").await;
    for expected in [
        "Uid:\t1000\t1000\t1000\t1000",
        "Gid:\t1000\t1000\t1000\t1000",
        "CapInh:\t0000000000000000",
        "CapPrm:\t0000000000000000",
        "CapEff:\t0000000000000000",
        "CapBnd:\t0000000000000000",
        "CapAmb:\t0000000000000000",
        "NoNewPrivs:\t1",
        "Threads:\t1",
    ] {
        assert!(
            status.lines().any(|line| line == expected),
            "{expected}\n{status}"
        );
    }
    assert_eq!(
        printed(
            &session,
            "print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1])"
        )
        .await,
        "[0, 1, 2, 3, 4]\n"
    );
    assert_eq!(printed(&session, "import socket\nprint(os.getpid(), socket.gethostname(), os.getcwd(), os.path.expanduser('~'))").await, "2 belljar /workspace /tmp\n");
    let environment = printed(&session, "print(sorted(os.environ))").await;
    assert_eq!(
        environment,
        "['HOME', 'JE_ARROW_MALLOC_CONF', 'LANG', 'LC_ALL', 'MKL_NUM_THREADS', 'MPLBACKEND', 'OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS', 'OPENBLAS_THREAD_TIMEOUT', 'PATH', 'PYTHONDONTWRITEBYTECODE', 'TMPDIR']\n"
    );
}

/// Each session is another user of the host, where the host can give one: as root.
#[tokio::test]
async fn each_session_has_a_host_user_of_its_own() {
    let engine = engine();
    let mut owners = Vec::new();
    for _ in 0..2 {
        let session = engine.session().await.unwrap();
        owners.push(printed(&session, "print(open('/proc/self/uid_map').read().split())").await);
    }
    if belljar_walls::has_admin_capability() {
        assert_ne!(owners[0], owners[1]);
    } else {
        // There is one user to give, and `belljar doctor` says so.
        assert_eq!(owners[0], owners[1]);
    }
}

/// G1: no namespace can be made inside, so no capability comes back.
#[tokio::test]
async fn no_namespaces_inside() {
    let session = session().await;
    let code = "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n\
        for flag in (0x10000000, 0x20000, 0x20000000, 0x40000000, 0x10020000):\n\
        \x20   print(libc.unshare(flag), end=' ')";
    assert_eq!(printed(&session, code).await, "-1 -1 -1 -1 -1 ");
}

/// Nothing outside the workspace and the two temporary directories can be written.
#[tokio::test]
async fn everything_else_is_read_only() {
    let session = session().await;
    let code = "import os, sys\nopen('/tmp/x', 'w').close(); open('/dev/shm/x', 'w').close(); open('/workspace/x', 'w').close()\n\
        for path in ['/x', '/usr/x', '/etc/x', '/opt/belljar/x', '/opt/belljar/belljar_guest/session.py', '/dev/x', '/proc/sys/kernel/hostname', '/etc/passwd', sys.prefix + '/x', os.path.dirname(os.__file__) + '/x.py']:\n\
        \x20   try:\n        open(path, 'a').write('x'); print('WROTE', path)\n    except OSError: pass";
    assert_eq!(printed(&session, code).await, "");
}

/// The host's files and processes are not there.
#[tokio::test]
async fn the_host_is_not_visible() {
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "CANARY").unwrap();
    let session = session().await;
    let path = secret.path().display();
    assert_eq!(printed(&session, &format!("import os\nprint(os.path.exists('{path}'), os.listdir('/home/user'), os.path.exists('/sys'), os.path.exists('/etc/shadow'))")).await, "False [] False False\n");
    assert_eq!(
        printed(
            &session,
            "print(sorted(int(p) for p in os.listdir('/proc') if p.isdigit()))"
        )
        .await,
        "[2]\n"
    );
    assert_eq!(printed(&session, "for p in ('/proc/1/environ', '/proc/1/mem', '/proc/1/fd'):\n    try:\n        os.listdir(p) if p.endswith('fd') else open(p).read()\n        print('READ', p)\n    except OSError: pass").await, "");
}

/// No network: only a loopback of its own, and no name is resolved.
#[tokio::test]
async fn no_network() {
    let session = session().await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let code = format!(
        "import socket\nfor a in [('127.0.0.1', {port}), ('192.0.2.1', 80)]:\n    try:\n        socket.create_connection(a, timeout=2); print('CONNECTED', a)\n    except OSError: pass\ntry:\n    print('RESOLVED', socket.getaddrinfo('example.com', 80))\nexcept OSError: pass\nprint([line.split(':')[0].strip() for line in open('/proc/net/dev') if ':' in line])"
    );
    assert_eq!(printed(&session, &code).await, "['lo']\n");
    let own = "import threading\ns = socket.create_server(('127.0.0.1', 0))\nt = threading.Thread(target=lambda: s.accept()[0].sendall(b'hi'))\nt.start()\nprint(socket.create_connection(s.getsockname()).recv(9))";
    assert_eq!(printed(&session, own).await, "b'hi'\n");
}

/// Signals to everyone reach only the session.
#[tokio::test]
async fn signals_stay_inside() {
    let engine = engine();
    let (victim, sibling) = (
        engine.session().await.unwrap(),
        engine.session().await.unwrap(),
    );
    good(&sibling, "x = 1").await;
    let outcome = victim.run("import os\ntry: os.kill(-1, 9)\nexcept ProcessLookupError: pass\ntry: os.kill(1, 9)\nexcept PermissionError: pass\nprint('init lives', flush=True)\nos.kill(os.getpid(), 9)").await.unwrap();
    assert_eq!(outcome.stdout.text, "init lives\n");
    assert_eq!(printed(&sibling, "print(x)").await, "1\n");
    good(&engine.session().await.unwrap(), "1").await;
}

/// What a session leaves running ends with it: daemons, orphans, ignorers of signals.
#[tokio::test]
async fn daemons_end_with_their_session() {
    let engine = engine();
    let session = engine.session().await.unwrap();
    let code = "import os, time, signal\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))\n        while True: time.sleep(0.1)\n    os._exit(0)\nos.wait()";
    good(&session, code).await;
    let before = crate::support::processes_below(std::process::id()).len();
    session.close().await.unwrap();
    crate::support::eventually("the end of three processes", || {
        crate::support::processes_below(std::process::id()).len() + 3 <= before
    })
    .await;
}

/// Orphans are reaped: no zombie stays.
#[tokio::test]
async fn orphans_are_reaped() {
    let session = session().await;
    let code = "import os, time\nfor _ in range(200):\n    if os.fork() == 0:\n        if os.fork() == 0: os._exit(0)\n        os._exit(0)\n    os.wait()\ntime.sleep(0.3)\nprint(sorted(int(p) for p in os.listdir('/proc') if p.isdigit()))";
    assert_eq!(printed(&session, code).await, "[2]\n");
}
