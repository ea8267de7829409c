//! Memory of the service that tenants fill: events and outcomes of their cells, large bodies and answers.
//!
//! Counted in bytes, of each tenant and of all. A charge lives as long as the bytes do, whoever still reads them.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};

use axum::body::{Body, Bytes, HttpBody as _};
use axum::response::Response;
use belljar_sandbox::HostMemory;

use crate::lock::lock;
use crate::problem::{Code, Problem};
use crate::tenants::TenantName;

/// The share of the memory that all tenants may fill together, within these limits: where the kernel tells of none, it
/// is the least.
const SHARE: u64 = 8;
const LEAST: u64 = 64 << 20;
const MOST: u64 = 2 << 30;

/// The part of it that one tenant may fill, and the most.
const TENANT_SHARE: usize = 4;
const TENANT_MOST: usize = 256 << 20;

/// What is smaller is not counted: the number of requests bounds it.
pub(crate) const SMALL: usize = 64 << 10;

#[derive(Debug)]
pub(crate) struct ChargedBytes {
    /// Of all tenants.
    pub(crate) most: usize,
    /// Of one.
    pub(crate) tenant_most: usize,
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    all: usize,
    tenants: HashMap<TenantName, usize>,
}

/// Bytes of a tenant that are counted until this is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    charged: Arc<ChargedBytes>,
    tenant: TenantName,
    bytes: usize,
}

/// Bytes that are counted as they are written. Writing fails where there may be no more of them.
#[derive(Debug)]
pub(crate) struct ChargedWriter {
    charge: Charge,
    expected: usize,
    bytes: Vec<u8>,
}

/// Marks an answer whose bytes are counted already.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IsCharged;

impl ChargedBytes {
    pub(crate) fn new(memory: Option<HostMemory>) -> Arc<Self> {
        let share = memory.map_or(LEAST, |memory| memory.total / SHARE);
        let most = usize::try_from(share.clamp(LEAST, MOST)).unwrap_or(usize::MAX);
        Arc::new(Self {
            most,
            tenant_most: (most / TENANT_SHARE).min(TENANT_MOST),
            used: Mutex::default(),
        })
    }

    /// Counts bytes; `None` beyond the limit of the tenant or of all tenants.
    pub(crate) fn charge(self: &Arc<Self>, tenant: &TenantName, bytes: usize) -> Option<Charge> {
        let mut charge = self.nothing(tenant);
        charge.grow(bytes).then_some(charge)
    }

    /// Counts bytes, or refuses the request.
    pub(crate) fn charge_or_refuse(
        self: &Arc<Self>,
        tenant: &TenantName,
        bytes: usize,
    ) -> Result<Charge, Problem> {
        self.charge(tenant, bytes).ok_or_else(refusal)
    }

    /// Counts what is written, which is about as much as expected.
    pub(crate) fn writer(self: &Arc<Self>, tenant: &TenantName, expected: usize) -> ChargedWriter {
        ChargedWriter {
            charge: self.nothing(tenant),
            expected,
            bytes: Vec::new(),
        }
    }

    fn nothing(self: &Arc<Self>, tenant: &TenantName) -> Charge {
        Charge {
            charged: Arc::clone(self),
            tenant: tenant.clone(),
            bytes: 0,
        }
    }

    /// Counts a large answer until its client has taken it, or refuses it.
    pub(crate) async fn answer(
        self: &Arc<Self>,
        tenant: &TenantName,
        response: Response,
    ) -> Result<Response, Problem> {
        let size = response.body().size_hint().exact();
        let size = size.and_then(|size| usize::try_from(size).ok());
        let Some(size) = size.filter(|size| *size > SMALL) else {
            return Ok(response);
        };
        if response.extensions().get::<IsCharged>().is_some() {
            return Ok(response);
        }
        let charge = self.charge_or_refuse(tenant, size)?;
        let (parts, body) = response.into_parts();
        // It is in memory, and has one part.
        let body = axum::body::to_bytes(body, size).await;
        let body = body.map_err(|error| Problem::internal("cannot read a response", error))?;
        Ok(Response::from_parts(parts, Body::from(charge.hold(body))))
    }

    /// What all tenants hold together, and what the one holds that holds most.
    pub(crate) fn totals(&self) -> (usize, usize) {
        let used = lock(&self.used);
        let most = used.tenants.values().max().copied();
        (used.all, most.unwrap_or_default())
    }
}

pub(crate) fn refusal() -> Problem {
    let detail = "the service holds the maximum of bytes for the tenant: read the pending responses, or send \
     less at once";
    Problem::new(Code::TooManyTransfers, detail)
}

impl Charge {
    /// Counts more bytes; false where there may be no more.
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        let mut used = lock(&self.charged.used);
        let of_tenant = used.tenants.get(&self.tenant).copied().unwrap_or_default();
        let fits =
            of_tenant + bytes <= self.charged.tenant_most && used.all + bytes <= self.charged.most;
        if fits {
            used.all += bytes;
            *used.tenants.entry(self.tenant.clone()).or_default() += bytes;
            self.bytes += bytes;
        }
        fits
    }

    /// The bytes, which are counted until nobody has them any more.
    pub(crate) fn hold(self, bytes: impl AsRef<[u8]> + Send + 'static) -> Bytes {
        Bytes::from_owner(Counted(bytes, self))
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let mut used = lock(&self.charged.used);
        used.all -= self.bytes;
        if let Some(of_tenant) = used.tenants.get_mut(&self.tenant) {
            *of_tenant -= self.bytes;
            if *of_tenant == 0 {
                used.tenants.remove(&self.tenant);
            }
        }
    }
}

impl ChargedWriter {
    pub(crate) fn finish(self) -> Bytes {
        self.charge.hold(self.bytes)
    }
}

impl io::Write for ChargedWriter {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        let (charged, needed) = (self.bytes.capacity(), self.bytes.len() + part.len());
        if needed > charged {
            let capacity = needed.max(2 * charged).max(self.expected);
            if !self.charge.grow(capacity - charged) {
                return Err(io::ErrorKind::OutOfMemory.into());
            }
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        self.bytes.extend_from_slice(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Counted<T>(T, #[expect(dead_code, reason = "for its end")] Charge);

impl<T: AsRef<[u8]>> AsRef<[u8]> for Counted<T> {
    fn as_ref(&self) -> &[u8] {
        self.0.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted_while_somebody_has_them() {
        let total = 8 * LEAST;
        let charged = ChargedBytes::new(Some(HostMemory {
            total,
            available: total,
        }));
        assert_eq!((charged.most, charged.tenant_most), (64 << 20, 16 << 20));
        let tenants: [TenantName; 5] = ["a", "b", "c", "d", "e"].map(|name| name.parse().unwrap());
        let mut all = Vec::new();
        for tenant in &tenants[..4] {
            let charge = charged.charge(tenant, charged.tenant_most).unwrap();
            assert!(charged.charge(tenant, 1).is_none());
            all.push(charge.hold(vec![0]));
        }
        assert!(charged.charge(&tenants[4], 1).is_none());
        let clone = all[0].clone();
        assert_eq!(charged.totals(), (64 << 20, 16 << 20));
        all.clear();
        assert_eq!(charged.totals(), (16 << 20, 16 << 20));
        drop(clone);
        assert_eq!(charged.totals(), (0, 0));
        assert!(lock(&charged.used).tenants.is_empty());
    }

    /// Text of zeros is six times as long as JSON: what counts is what is written, not what was expected.
    #[test]
    fn writing_fails_past_the_bytes_of_a_tenant() {
        let charged = ChargedBytes::new(None);
        let tenant: TenantName = "a".parse().unwrap();
        let text = "\0".repeat(charged.tenant_most / 4);
        let mut writer = charged.writer(&tenant, text.len());
        assert!(serde_json::to_writer(&mut writer, &text).is_err());
        assert!(charged.totals().1 <= charged.tenant_most);
        drop(writer);
        assert_eq!(charged.totals(), (0, 0));
        let mut writer = charged.writer(&tenant, 0);
        serde_json::to_writer(&mut writer, &text[..1000]).unwrap();
        let bytes = writer.finish();
        assert_eq!(bytes.len(), 6002);
        assert!((6002..=16_384).contains(&charged.totals().1), "{charged:?}");
        drop(bytes);
        assert_eq!(charged.totals(), (0, 0));
    }
}
