//! Memory of the host that guests fill: frames in transit, and displays of running cells.
//!
//! It is counted for this process, whose memory it is, and for each tenant. A guest is not read
//! while its frames have no memory; a display without memory is left out.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use crate::backend::host_memory::HostMemory;
use crate::lock::lock;

/// The share of the memory that all guests may fill together, within these limits; half of it those of one tenant.
const SHARE: u64 = 16;
const LEAST: u64 = 64 << 20;
const MOST: u64 = 1 << 30;

/// What is smaller is not counted, and the rest in steps: most frames are small.
const SMALL: usize = 64 << 10;
const STEP: usize = 256 << 10;

/// When a guest without memory is checked again.
pub(crate) const PAUSE: Duration = Duration::from_millis(50);

static ALL: LazyLock<Buffers> = LazyLock::new(|| {
    let share = HostMemory::now().map_or(LEAST, |memory| memory.total / SHARE);
    Buffers::new(usize::try_from(share.clamp(LEAST, MOST)).unwrap_or(usize::MAX))
});

#[derive(Debug)]
struct Buffers {
    most: usize,
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    all: usize,
    tenants: HashMap<Arc<str>, usize>,
}

impl Buffers {
    fn new(most: usize) -> Self {
        Self {
            most,
            used: Mutex::default(),
        }
    }
}

/// What the host holds for one guest.
#[derive(Debug)]
pub(crate) struct Share {
    of: &'static Buffers,
    tenant: Arc<str>,
    bytes: usize,
}

impl Share {
    /// Nothing yet, of this tenant; sessions without one are a tenant together.
    pub(crate) fn new(tenant: Option<&str>) -> Self {
        Self {
            of: &ALL,
            tenant: tenant.unwrap_or_default().into(),
            bytes: 0,
        }
    }

    /// Nothing yet, of the same tenant.
    pub(crate) fn another(&self) -> Self {
        Self {
            of: self.of,
            tenant: Arc::clone(&self.tenant),
            bytes: 0,
        }
    }

    /// Holds so many bytes instead of the previous number; false, and no change, if they exceed the
    /// limit.
    pub(crate) fn hold(&mut self, bytes: usize) -> bool {
        self.hold_within(bytes, self.of.most / 2)
    }

    /// The same for what is held longer. It leaves memory for frames, so that these arrive.
    pub(crate) fn keep(&mut self, bytes: usize) -> bool {
        self.hold_within(bytes, self.of.most / 8 * 3)
    }

    fn hold_within(&mut self, bytes: usize, most: usize) -> bool {
        let bytes = match bytes {
            ..=SMALL => 0,
            _ => bytes.next_multiple_of(STEP),
        };
        if bytes == self.bytes {
            return true;
        }
        let mut used = lock(&self.of.used);
        let of_tenant = used.tenants.get(&self.tenant).copied().unwrap_or_default();
        let (all, of_tenant) = (used.all - self.bytes, of_tenant - self.bytes);
        let fits = bytes < self.bytes || (of_tenant + bytes <= most && all + bytes <= self.of.most);
        if fits {
            self.bytes = bytes;
            used.all = all + bytes;
            match of_tenant + bytes {
                0 => drop(used.tenants.remove(&self.tenant)),
                held => drop(used.tenants.insert(Arc::clone(&self.tenant), held)),
            }
        }
        fits
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.hold(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_have_half_each_and_frames_more_than_displays() {
        let all: &'static Buffers = Box::leak(Box::new(Buffers::new(64 * STEP)));
        let share = |tenant: &str| Share {
            of: all,
            tenant: tenant.into(),
            bytes: 0,
        };
        let (mut frame, mut display) = (share("a"), share("a"));
        assert!(display.keep(24 * STEP));
        assert!(!display.keep(25 * STEP));
        assert!(!share("a").keep(STEP));
        assert!(frame.hold(8 * STEP));
        assert!(!frame.hold(8 * STEP + 1));
        assert!(frame.hold(SMALL), "less is always held");
        assert!(frame.hold(8 * STEP));
        let mut other = share("b");
        assert!(other.hold(32 * STEP));
        assert!(!share("c").hold(SMALL + 1), "all of it is held");
        assert!(share("c").hold(SMALL));
        drop((frame, display, other));
        let used = lock(&all.used);
        assert!(used.all == 0 && used.tenants.is_empty());
    }
}
