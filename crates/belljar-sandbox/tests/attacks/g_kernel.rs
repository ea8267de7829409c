//! G: the kernel's surface.

use crate::harness::{Case, Severity};

#[tokio::test(flavor = "multi_thread")]
async fn g1_new_user_namespace() {
    let case = Case::begin(
        "G1",
        Severity::Escape,
        "unshare(CLONE_NEWUSER), clone(CLONE_NEWUSER), clone3",
        "each fails; no capability comes back",
    )
    .await;
    // clone and clone3 (56 and 435 on x86-64) as a fork into a new user namespace, whose child
    // ends at once.
    let code = "import ctypes, os, struct\nlibc = ctypes.CDLL(None, use_errno=True)\ndef fork(*arguments):\n    pid = libc.syscall(*arguments)\n    if pid == 0: os._exit(0)\n    return pid > 0\nprint(fork(56, 0x10000000 | 17, 0, 0, 0, 0))\nwanted = ctypes.create_string_buffer(struct.pack('8Q', 0x10000000, 0, 0, 0, 17, 0, 0, 0))\nprint(fork(435, wanted, 64))\nprint(libc.unshare(0x10000000) == 0)";
    let control = case.control(code).await;
    assert_eq!(control.stdout, "True\nTrue\nTrue\n", "{control:?}");
    let session = case.session().await;
    assert_eq!(case.printed(&session, code).await, "False\nFalse\nFalse\n");
    case.end([session]).await;
}
