//! Listeners of event streams: a stream ends with its key, and shows signs of life.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Bytes;

use crate::admission::Permit;
use crate::problem::Problem;
use crate::service::{Caller, Service};
use crate::streams::KEY_CHECK;

/// A sign of life is sent when nothing else was for so long.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);

/// One who listens to a stream.
pub(crate) struct Listener {
    pub(crate) service: Arc<Service>,
    key: String,
    /// When the key was last looked at.
    checked: Instant,
    /// When something was last sent.
    spoke: Instant,
    _permit: Permit,
}

impl Listener {
    /// Takes a permit for a stream.
    pub(crate) fn new(service: &Arc<Service>, caller: &Caller) -> Result<Self, Problem> {
        Ok(Self {
            _permit: service.admission.stream(&caller.tenant)?,
            service: Arc::clone(service),
            key: caller.prefix.clone(),
            checked: Instant::now(),
            spoke: Instant::now(),
        })
    }

    /// Whether it is time to check if the stream may continue.
    pub(crate) fn is_due(&self) -> bool {
        self.checked.elapsed() >= KEY_CHECK
    }

    /// Whether the key is still good.
    pub(crate) async fn check_key(&mut self) -> bool {
        self.checked = Instant::now();
        self.service.tenants.is_valid(&self.key).await
    }

    /// Something was sent.
    pub(crate) fn spoke(&mut self) {
        self.spoke = Instant::now();
    }

    /// What is to be sent now.
    pub(crate) fn say(&mut self, part: Bytes) -> Bytes {
        self.spoke();
        part
    }

    /// A sign of life, if it is time for one.
    pub(crate) fn sign_of_life(&mut self) -> Option<Bytes> {
        let silent = self.spoke.elapsed() >= SIGN_OF_LIFE;
        silent.then(|| self.say(Bytes::from_static(b":\n\n")))
    }
}
