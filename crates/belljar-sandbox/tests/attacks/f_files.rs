//! F: files in and out.

use belljar_sandbox::Error;

use crate::harness::{Case, Severity};

#[tokio::test(flavor = "multi_thread")]
async fn f2_link_to_a_host_file() {
    let case = Case::begin(
        "F2",
        Severity::HostLeak,
        "symbolic links to files of the host, and through /proc/self/root",
        "no file is got or put through them",
    )
    .await;
    let secret = case.canaries.file.clone();
    let directory = secret.parent().unwrap().display();
    let links = format!(
        "import os\nos.symlink('{directory}/secret.txt', 'leak')\nos.symlink('/proc/self/root{directory}', 'd')\nos.symlink('/proc/{}/root/', 'host')",
        std::process::id()
    );
    let read = format!("{links}\nprint(open('leak').read()[:6], open('d/secret.txt').read()[:6])");
    let control = case.control(&read).await;
    assert_eq!(control.stdout, "CANARY CANARY\n", "{control:?}");
    let session = case.session().await;
    case.fails(&session, read).await;
    for path in ["leak", "d/secret.txt", "host/etc/passwd"] {
        let got = session.get(path);
        assert!(matches!(got, Err(Error::File(_))), "{path}: {got:?}");
        let put = session.put(path, b"planted");
        assert!(matches!(put, Err(Error::File(_))), "{path}: {put:?}");
    }
    let text = std::fs::read_to_string(&secret).unwrap();
    assert!(text.starts_with("CANARY-"), "the host's file was written");
    case.end([session]).await;
}
