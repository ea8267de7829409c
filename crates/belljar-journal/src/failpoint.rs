//! Ends the process in the middle of an append, for tests of what a crash leaves behind.
//!
//! With the feature `failpoints`, `BELLJAR_JOURNAL_FAILPOINT=NAME:COUNT` aborts the process when
//! it comes to the failpoint NAME for the COUNT-th time. Without the feature there is no such code.

/// Before anything is written.
pub(crate) const BEFORE_APPEND: &str = "before-append";
/// All is written, nothing is committed.
pub(crate) const BEFORE_COMMIT: &str = "before-commit";
/// The events are durable, and nobody has been told.
pub(crate) const BEFORE_ACKNOWLEDGE: &str = "before-acknowledge";

#[cfg(feature = "failpoints")]
pub(crate) fn reach(name: &str) {
    use std::sync::atomic::{AtomicU64, Ordering};
    static REACHED: AtomicU64 = AtomicU64::new(0);

    let Ok(wanted) = std::env::var("BELLJAR_JOURNAL_FAILPOINT") else {
        return;
    };
    let Some((wanted, count)) = wanted.split_once(':') else {
        return;
    };
    if wanted == name && (REACHED.fetch_add(1, Ordering::Relaxed) + 1).to_string() == count {
        std::process::abort();
    }
}

#[cfg(not(feature = "failpoints"))]
pub(crate) fn reach(_name: &str) {}
