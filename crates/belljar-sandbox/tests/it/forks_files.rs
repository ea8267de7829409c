//! The files of forks: what is copied into their workspace, and what makes a fork fail.

use belljar_sandbox::{Error, Session};

use crate::support::{eventually, good, printed, processes_below, session};

/// Files, directories and links, with modes and times; a hole stays a hole; what is no file is left
/// out.
#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_file_is_copied_or_left_out() {
    let session = session().await;
    let setup = r"
import os, socket, time
with open('sparse', 'wb') as file:
    file.seek(1 << 20); file.write(b'middle'); file.truncate(50 << 20)
os.mkfifo('pipe')
server = socket.socket(socket.AF_UNIX); server.bind('server')
os.makedirs('closed/inner'); open('closed/inner/file', 'w').write('read only'); os.chmod('closed/inner', 0o500); os.chmod('closed', 0o550)
os.utime('closed', (1e9, 1e9))
os.symlink('nowhere', 'dangling'); os.symlink('closed', 'link')
open(os.fsencode('name') + b'\xff', 'w').write('no UTF-8')
open('empty', 'w'); os.chmod('empty', 0o640); os.utime('empty', (1e9, 1e9))
os.makedirs('many')
for number in range(5000):
    with open(f'many/{number}', 'w') as file: file.write(str(number))
def look():
    with open('sparse', 'rb') as file:
        data = file.read(); found = data[1 << 20:][:6], len(data), data.count(0)
    print(sorted(os.listdir(b'.')))
    print(found, os.stat('sparse').st_blocks < 100)
    print([oct(os.stat(name).st_mode) for name in ('closed', 'closed/inner', 'empty')])
    print([int(os.stat(name).st_mtime) for name in ('closed', 'empty')])
    print(open('link/inner/file').read(), os.readlink('dangling'), open(os.fsencode('name') + b'\xff').read())
    print(all(open(f'many/{number}').read() == str(number) for number in range(5000)), len(os.listdir('many')))
";
    good(&session, setup).await;
    let fork = session.fork(1).await.unwrap().remove(0);
    let before = printed(&session, "look()").await;
    assert!(
        before.contains("(b'middle', 52428800, 52428794) True"),
        "{before}"
    );
    let expected = before.replace("b'pipe', b'server', ", "");
    assert_ne!(expected, before);
    assert_eq!(printed(&fork, "look()").await, expected);
    // Deep ones copy what the fork made of it.
    good(&fork, "open('more', 'w').write('more')").await;
    let deep = fork.fork(1).await.unwrap().remove(0);
    let code =
        "print(open('more').read(), len(os.listdir('many')), os.getcwd()); open('most', 'w')";
    assert_eq!(
        printed(&deep, code).await,
        "more 5000 /forks/1/2/workspace\n"
    );
    // The workspace of a fork that is gone goes, and those of its own forks stay.
    drop(fork);
    assert_eq!(
        printed(&deep, code).await,
        "more 5000 /forks/1/2/workspace\n"
    );
    assert_eq!(
        printed(
            &deep,
            "import subprocess; subprocess.run(['touch', 'made']); print(os.path.exists('made'))"
        )
        .await,
        "True\n"
    );
    let code = "print(os.listdir('/forks/1/workspace'))";
    eventually_printed(&session, code, "[]\n").await;
    drop(deep);
    let code = "print(os.listdir('/forks/1'))";
    eventually_printed(&session, code, "[]\n").await;
}

async fn eventually_printed(session: &Session, code: &str, expected: &str) {
    for _ in 0..100 {
        if printed(session, code).await == expected {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!(printed(session, code).await, expected);
}

/// A file that the session itself can't read is reported by name; nothing is left of the fork, nor of those
/// that were to be made with it, and the session continues.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_may_not_be_read_is_told() {
    let session = session().await;
    good(
        &session,
        "import os; x = 1; os.mkdir('closed'); open('file', 'w')",
    )
    .await;
    let running = || processes_below(std::process::id()).len();
    let before = running();
    for (close, open, path) in [
        (
            "os.chmod('closed', 0)",
            "os.chmod('closed', 0o700)",
            "/workspace/closed",
        ),
        (
            "os.chmod('file', 0o200)",
            "os.chmod('file', 0o600)",
            "/workspace/file",
        ),
    ] {
        good(&session, close).await;
        for count in [1, 8] {
            let failed = session.fork(count).await;
            let Err(Error::Fork(why)) = failed else {
                panic!("{failed:?}");
            };
            let words = format!(
                "copy the workspace: PermissionError: [Errno 13] Permission denied: '{path}'"
            );
            assert_eq!(why, words);
            eventually("the end of the forks", || running() == before).await;
        }
        good(&session, open).await;
        let forks = session.fork(63).await.unwrap();
        assert_eq!(printed(&forks[62], "print(x)").await, "1\n");
    }
}
