//! D: the driver, the control channel, the host's trust.

use crate::harness::{Case, Severity};

#[tokio::test(flavor = "multi_thread")]
async fn d3_descriptors() {
    let case = Case::begin(
        "D3",
        Severity::Escape,
        "list /proc/self/fd",
        "exactly the five of a session: no directory of the host, no listener, nothing of a sibling",
    )
    .await;
    let session = case.session().await;
    let code = "import os\nfor fd in sorted(map(int, os.listdir('/proc/self/fd'))):\n    try: print(fd, os.readlink(f'/proc/self/fd/{fd}').split(':')[0])\n    except FileNotFoundError: pass";
    let golden = "0 /dev/null\n1 pipe\n2 pipe\n3 socket\n4 pipe\n";
    assert_eq!(case.printed(&session, code).await, golden);
    case.end([session]).await;
}
