//! Faults for tests: a process that dies in the middle of an append, and writes that fail.
//!
//! With the feature `failpoints`, `BELLJAR_JOURNAL_FAILPOINT=NAME:COUNT` aborts the process when
//! it comes to the failpoint NAME for the COUNT-th time, and `arm` makes a write fail. Without the
//! feature there is no such code.

#[cfg(not(feature = "failpoints"))]
use std::io;

/// Before anything is written.
pub(crate) const BEFORE_APPEND: &str = "before-append";
/// All is written, nothing is committed.
pub(crate) const BEFORE_COMMIT: &str = "before-commit";
/// The events are durable, and no reader has been notified.
pub(crate) const BEFORE_ACKNOWLEDGE: &str = "before-acknowledge";

/// A deliberate mistake of a cluster: a writer is never fenced, neither by the run's epoch nor by its own lease.
pub(crate) const UNFENCED: &str = "unfenced";

#[cfg(feature = "failpoints")]
pub use armed::{arm, disarm, fail, hits};

#[cfg(feature = "failpoints")]
mod armed {
    use std::io;
    use std::sync::{Mutex, PoisonError};

    struct Armed {
        write: String,
        errno: i32,
        hits: u32,
    }

    static ARMED: Mutex<Option<Armed>> = Mutex::new(None);

    /// Makes each write of this name fail with this error number, until [`disarm`].
    pub fn arm(write: &str, errno: i32) {
        *ARMED.lock().unwrap_or_else(PoisonError::into_inner) = Some(Armed {
            write: write.to_owned(),
            errno,
            hits: 0,
        });
    }

    /// How many writes have failed since [`arm`]; none if no write is armed.
    pub fn hits() -> Option<u32> {
        let armed = ARMED.lock().unwrap_or_else(PoisonError::into_inner);
        armed.as_ref().map(|armed| armed.hits)
    }

    /// Lets writes succeed again. Returns how many have failed.
    pub fn disarm() -> u32 {
        let armed = ARMED.lock().unwrap_or_else(PoisonError::into_inner).take();
        armed.map_or(0, |armed| armed.hits)
    }

    /// An error where a test has armed this write.
    pub fn fail(write: &'static str) -> io::Result<()> {
        match &mut *ARMED.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(armed) if armed.write == write => {
                armed.hits += 1;
                Err(io::Error::from_raw_os_error(armed.errno))
            }
            _ => Ok(()),
        }
    }
}

/// Never an error: tests arm writes with the feature `failpoints`.
#[cfg(not(feature = "failpoints"))]
#[inline]
pub fn fail(_write: &'static str) -> io::Result<()> {
    Ok(())
}

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

/// Whether a test has asked this process for a mistake: `BELLJAR_JOURNAL_FAILPOINT=NAME`.
#[cfg(feature = "failpoints")]
pub(crate) fn is_set(name: &str) -> bool {
    use std::sync::OnceLock;
    static SET: OnceLock<Option<String>> = OnceLock::new();
    let set = SET.get_or_init(|| std::env::var("BELLJAR_JOURNAL_FAILPOINT").ok());
    set.as_deref() == Some(name)
}

#[cfg(not(feature = "failpoints"))]
pub(crate) fn is_set(_name: &str) -> bool {
    false
}
