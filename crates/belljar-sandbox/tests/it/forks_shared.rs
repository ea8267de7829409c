//! What a session and its forks have in common: the list of docs/checkpoints.md, "What it shares".
//! A line that is not true any more fails here.

use belljar_sandbox::Session;

use crate::support::{engine, good, printed};

/// A session, a fork of it, and the fork's process id in their common namespace, which both know as
/// `parent` and `fork`.
async fn session_with_fork(setup: &str) -> (Session, Session) {
    let session = engine().session().await.unwrap();
    good(
        &session,
        "import fcntl, mmap, os, signal, socket, threading\nparent = os.getpid()",
    )
    .await;
    good(&session, setup).await;
    let fork = session.fork(1).await.unwrap().remove(0);
    let pid = printed(&fork, "fork = os.getpid()\nprint(fork)").await;
    good(&session, &format!("fork = {pid}")).await;
    (session, fork)
}

/// The parent reaches into its forks; that forks don't reach it is `j5_a_fork_reaches_no_other`.
#[tokio::test(flavor = "multi_thread")]
async fn a_parent_reaches_its_fork() {
    let (session, fork) = session_with_fork("").await;
    let setup = "caught = []\n_ = signal.signal(signal.SIGUSR1, lambda *_: caught.append(1))\nopen('mine', 'w').write('of the fork')\nsecret = b'in the fork alone ' * 2";
    good(&fork, setup).await;
    let reach = "os.kill(fork, signal.SIGUSR1)\n\
        print(open('/forks/1/workspace/mine').read(), os.readlink(f'/proc/{fork}/cwd'), os.path.exists(f'/proc/{fork}/mem'))\n\
        with open(f'/proc/{fork}/maps') as maps: print(len(maps.readlines()) > 10)\n\
        open('/forks/1/workspace/mine', 'w').write('of the parent')";
    assert_eq!(
        printed(&session, reach).await,
        "of the fork /forks/1/workspace True\nTrue\n"
    );
    assert_eq!(
        printed(&fork, "print(caught, open('mine').read())").await,
        "[1] of the parent\n"
    );
}

/// `/tmp` and `/dev/shm` are the same file systems, so their sizes are common, too; locks of files
/// there hold for both.
#[tokio::test(flavor = "multi_thread")]
async fn temporary_files_and_their_locks_are_shared() {
    let setup = "held = open('/tmp/lock', 'w'); fcntl.flock(held, fcntl.LOCK_EX)\n\
        open('/tmp/a', 'w').write('by the parent'); open('/dev/shm/a', 'w').write('by the parent')";
    let (session, fork) = session_with_fork(setup).await;
    let devices = "print(os.stat('/tmp').st_dev, os.stat('/dev/shm').st_dev)";
    assert_eq!(
        printed(&session, devices).await,
        printed(&fork, devices).await
    );
    let code = "print(open('/tmp/a').read(), open('/dev/shm/a').read())\n\
        open('/tmp/b', 'w').write('by the fork'); open('/dev/shm/a', 'a').write(', and the fork')\n\
        def lock():\n    with open('/tmp/lock', 'w') as file:\n        try: fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)\n        except BlockingIOError: return 'held by another'\n        return 'free'\n\
        print(lock())";
    assert_eq!(
        printed(&fork, code).await,
        "by the parent by the parent\nheld by another\n"
    );
    assert_eq!(
        printed(
            &session,
            "print(open('/tmp/b').read(), open('/dev/shm/a').read()); held.close()"
        )
        .await,
        "by the fork by the parent, and the fork\n"
    );
    assert_eq!(printed(&fork, "print(lock())").await, "free\n");
}

/// One loopback: a server of the one is reached by the other.
#[tokio::test(flavor = "multi_thread")]
async fn loopback_is_shared() {
    let serve = "def serve(words):\n    server = socket.create_server(('127.0.0.1', 0))\n    def answer():\n        with server, server.accept()[0] as connection: connection.sendall(words)\n    threading.Thread(target=answer, daemon=True).start()\n    return server.getsockname()[1]\n\
        def ask(port):\n    with socket.create_connection(('127.0.0.1', port), 5) as connection: return connection.recv(100)";
    let (session, fork) = session_with_fork(serve).await;
    for (server, client, words) in [
        (&session, &fork, "of the parent"),
        (&fork, &session, "of the fork"),
    ] {
        let port = printed(server, &format!("print(serve(b'{words}'), end='')")).await;
        assert_eq!(
            printed(client, &format!("print(ask({port}).decode())")).await,
            format!("{words}\n")
        );
    }
}

/// What was mapped as shared before the fork, hash seed and addresses; a variable is not.
#[tokio::test(flavor = "multi_thread")]
async fn shared_mappings_and_the_layout_are_shared() {
    let (session, fork) = session_with_fork(
        "shared = mmap.mmap(-1, 4096); own = bytearray(8); shared[0] = 1; text = 'hash of a text'",
    )
    .await;
    good(&session, "shared[1] = 2; own[1] = 2").await;
    good(&fork, "shared[2] = 3; own[2] = 3").await;
    for (session, own) in [(&session, "[0, 2, 0]"), (&fork, "[0, 0, 3]")] {
        assert_eq!(
            printed(session, "print(list(shared[:3]), list(own[:3]))").await,
            format!("[1, 2, 3] {own}\n")
        );
    }
    let layout = "print(hash(text), id(text), id(os))";
    assert_eq!(
        printed(&session, layout).await,
        printed(&fork, layout).await
    );
}

/// Priority and CPUs of another can be changed: slower, not more.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_can_be_made_slower_by_its_namespace_group() {
    let (session, fork) = session_with_fork("").await;
    let slow = "def slow(pid):\n    before = os.getpriority(os.PRIO_PROCESS, pid); os.setpriority(os.PRIO_PROCESS, pid, before + 5)\n    one = {min(os.sched_getaffinity(0))}; os.sched_setaffinity(pid, one)\n    try: os.setpriority(os.PRIO_PROCESS, pid, before)\n    except PermissionError: print('not faster')\n\
        def look(): print(os.getpriority(os.PRIO_PROCESS, 0), len(os.sched_getaffinity(0)))";
    for (session, other, pid) in [(&fork, &session, "parent"), (&session, &fork, "fork")] {
        let before = printed(other, &format!("{slow}\nlook()")).await;
        let (before, _) = before.split_once(' ').unwrap();
        let slower = format!("{} 1\n", before.parse::<i32>().unwrap() + 5);
        assert_eq!(
            printed(session, &format!("{slow}\nslow({pid})")).await,
            "not faster\n"
        );
        assert_eq!(printed(other, "look()").await, slower);
    }
}
