//! H: processes, signals, /proc.

use crate::harness::{Case, Severity};

#[tokio::test(flavor = "multi_thread")]
async fn h1_signals_to_everyone() {
    let case = Case::begin(
        "H1",
        Severity::Lateral,
        "kill(-1, 9), kill(1, 9), killpg, kill(0, 9)",
        "only the session's own processes get them; its init lives",
    )
    .await;
    let session = case.session().await;
    let code = "import os, time\nchild = os.fork()\nif child == 0: time.sleep(60)\nos.kill(-1, 9)\nprint(os.waitpid(child, 0)[1], flush=True)\ntry: os.kill(1, 9)\nexcept PermissionError: pass\nprint('init lives', flush=True)\nos.killpg(0, 9)";
    let outcome = case.fails(&session, code).await;
    assert_eq!(outcome.stdout.text, "9\ninit lives\n", "{outcome:?}");
    assert_eq!(outcome.exit_code, -9, "{outcome:?}");
    let other = case.session().await;
    let outcome = case.fails(&other, "import os; os.kill(0, 9)").await;
    assert_eq!(outcome.exit_code, -9, "{outcome:?}");
    case.end([session, other]).await;
}
