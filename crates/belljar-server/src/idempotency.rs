//! The same request, sent twice, has one effect: the answers of earlier requests, by the keys that their
//! clients gave them.
//!
//! In memory: answers don't outlive the service. Sessions do, so that keys are left for its next start. Runs outlive a
//! crash, so that which run a request has begun is on disk as well (`run_keys` of the tenants' file).
//!
//! Bytes are bounded. A key whose answer is too large to be kept, or was given up for newer ones, is
//! kept without it: the request is not executed again, and a repetition is refused (`answer_gone`).

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, HttpBody as _};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt as _;
use tokio::sync::watch;

use crate::cell_record::CellRecord;
use crate::lock::lock;
use crate::problem::{Code, Problem};
use crate::tenants::{RequestKey, TenantName};

/// How long an answer is kept, and how many of a tenant.
const KEPT: Duration = Duration::from_hours(24);
const MAX_KEPT: usize = 4096;

/// The most bytes of an answer, of those of a tenant, and of all.
const MAX_ANSWER: u64 = 64 << 10;
const TENANT_BYTES: usize = 4 << 20;
const MAX_BYTES: usize = 64 << 20;

/// The answers that are kept.
#[derive(Debug, Default)]
pub(crate) struct Idempotency {
    tenants: Mutex<HashMap<TenantName, TenantResponses>>,
}

#[derive(Debug, Default)]
struct TenantResponses {
    by_key: HashMap<String, Arc<Slot>>,
    /// The oldest first.
    order: VecDeque<(Instant, String)>,
    /// Keys with complete responses, oldest first, and the bytes of these together.
    whole: VecDeque<Arc<Slot>>,
    bytes: usize,
}

/// The place for the answer to one request.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) key: String,
    pub(crate) fingerprint: [u8; 32],
    answer: watch::Sender<Option<StoredResponse>>,
}

#[derive(Clone, Debug)]
enum StoredResponse {
    Whole {
        status: StatusCode,
        headers: HeaderMap,
        body: Bytes,
    },
    /// A cell, which may still run. Its session keeps it for as long as it keeps cells.
    Cell(Weak<CellRecord>),
    /// It is not kept.
    Gone,
}

/// What a key is good for.
pub(crate) enum Claim {
    /// The request is new: it is to be carried out, and its answer put here.
    First(Arc<Slot>),
    /// It was there before.
    Again(Arc<Slot>),
}

/// The first answer to a request that came again.
pub(crate) enum Earlier {
    Response(Response),
    Cell(Arc<CellRecord>),
}

impl Idempotency {
    pub(crate) fn claim(
        &self,
        tenant: &TenantName,
        key: &str,
        fingerprint: [u8; 32],
    ) -> Result<Claim, Problem> {
        let mut tenants = lock(&self.tenants);
        let answers = tenants.entry(tenant.clone()).or_default();
        answers.give_up_old();
        if let Some(slot) = answers.by_key.get(key) {
            if slot.fingerprint == fingerprint {
                return Ok(Claim::Again(Arc::clone(slot)));
            }
            return Err(mismatch());
        }
        let slot = Arc::new(Slot {
            key: key.to_owned(),
            fingerprint,
            answer: watch::Sender::new(None),
        });
        answers.by_key.insert(key.to_owned(), Arc::clone(&slot));
        answers.order.push_back((Instant::now(), key.to_owned()));
        Ok(Claim::First(slot))
    }

    /// The keys of requests that were executed, oldest first, and the hashes of these requests.
    pub(crate) fn keys(&self) -> Vec<RequestKey> {
        let tenants = lock(&self.tenants);
        let mut all = Vec::new();
        for (tenant, answers) in &*tenants {
            let slots = answers.order.iter();
            let slots = slots.filter_map(|(_, key)| answers.by_key.get(key));
            all.extend(slots.map(|slot| RequestKey {
                tenant: tenant.clone(),
                key: slot.key.clone(),
                hash: slot.fingerprint,
            }));
        }
        all
    }

    /// Knows the keys of the service before this one: their requests are not executed again.
    pub(crate) fn take_over(&self, keys: Vec<RequestKey>) {
        let mut tenants = lock(&self.tenants);
        for RequestKey { tenant, key, hash } in keys {
            let answers = tenants.entry(tenant).or_default();
            answers.order.push_back((Instant::now(), key.clone()));
            let slot = Slot {
                key: key.clone(),
                fingerprint: hash,
                answer: watch::Sender::new(Some(StoredResponse::Gone)),
            };
            answers.by_key.insert(key, Arc::new(slot));
        }
    }

    /// Stores the response for retries. A transient error is sent to waiting clients and not stored.
    pub(crate) async fn keep(
        &self,
        tenant: &TenantName,
        slot: &Arc<Slot>,
        response: Response,
    ) -> Response {
        let status = response.status();
        let code = response.extensions().get::<Code>();
        let again = status.is_server_error() || code.is_some_and(|code| code.retry());
        if again {
            let mut tenants = lock(&self.tenants);
            if let Some(answers) = tenants.get_mut(tenant) {
                answers.by_key.remove(&slot.key);
                answers.order.retain(|(_, kept)| *kept != slot.key);
            }
        }
        if slot.answer.borrow().is_some() {
            // It is a cell.
            return response;
        }
        if response
            .size_hint()
            .upper()
            .is_none_or(|bytes| bytes > MAX_ANSWER)
        {
            slot.answer.send_replace(Some(StoredResponse::Gone));
            return response;
        }
        let (parts, body) = response.into_parts();
        let body = body
            .collect()
            .await
            .map(http_body_util::Collected::to_bytes);
        let body = body.unwrap_or_default();
        slot.answer.send_replace(Some(StoredResponse::Whole {
            status,
            headers: parts.headers.clone(),
            body: body.clone(),
        }));
        if !again {
            self.count(tenant, slot);
        }
        Response::from_parts(parts, Body::from(body))
    }

    /// Counts an answer that is kept whole, and gives up the oldest ones where there are too many bytes: those of whoever
    /// has most, where all have too many.
    fn count(&self, tenant: &TenantName, slot: &Arc<Slot>) {
        let mut tenants = lock(&self.tenants);
        let Some(answers) = tenants.get_mut(tenant) else {
            return;
        };
        answers.bytes += slot.bytes();
        answers.whole.push_back(Arc::clone(slot));
        while answers.bytes > TENANT_BYTES {
            answers.give_up_answer();
        }
        let mut all: usize = tenants.values().map(|answers| answers.bytes).sum();
        while all > MAX_BYTES
            && let Some(most) = tenants.values_mut().max_by_key(|answers| answers.bytes)
        {
            all -= most.give_up_answer();
        }
    }
}

impl Slot {
    /// The answer is a cell that has begun.
    pub(crate) fn store_cell(&self, record: &Arc<CellRecord>) {
        let answer = StoredResponse::Cell(Arc::downgrade(record));
        self.answer.send_replace(Some(answer));
    }

    /// The first answer, once it is there.
    pub(crate) async fn earlier(&self) -> Result<Earlier, Problem> {
        let mut told = self.answer.subscribe();
        let answer = told.wait_for(Option::is_some).await;
        let answer = answer
            .map_err(|error| Problem::internal("cannot return an earlier response", error))?;
        match answer.clone() {
            Some(StoredResponse::Cell(record)) => {
                let record = record.upgrade().ok_or_else(|| {
                    let detail = "the cell was executed, and is no longer kept";
                    Problem::new(Code::AnswerGone, detail)
                })?;
                Ok(Earlier::Cell(record))
            }
            Some(StoredResponse::Whole {
                status,
                headers,
                body,
            }) => {
                let mut response = (status, body).into_response();
                *response.headers_mut() = headers;
                Ok(Earlier::Response(response))
            }
            Some(StoredResponse::Gone) => {
                let detail =
                    "the request was executed, and its response was too large or too old to keep";
                Err(Problem::new(Code::AnswerGone, detail))
            }
            None => Err(Problem::internal(
                "cannot return an earlier response",
                "it is not there",
            )),
        }
    }

    /// What is held for an answer that is kept whole.
    fn bytes(&self) -> usize {
        match &*self.answer.borrow() {
            Some(StoredResponse::Whole { headers, body, .. }) => {
                let headers = headers.iter();
                let headers = headers.map(|(name, value)| name.as_str().len() + value.len());
                body.len() + headers.sum::<usize>()
            }
            _ => 0,
        }
    }
}

/// The key came with another request before.
pub(crate) fn mismatch() -> Problem {
    let detail = "this `Idempotency-Key` was used with another method, path or body; use a new key";
    Problem::new(Code::IdempotencyMismatch, detail)
}

impl TenantResponses {
    fn give_up_old(&mut self) {
        while let Some((at, key)) = self.order.front() {
            if self.order.len() < MAX_KEPT && at.elapsed() < KEPT {
                return;
            }
            let slot = self.by_key.remove(key);
            self.order.pop_front();
            let place =
                slot.and_then(|slot| self.whole.iter().position(|one| Arc::ptr_eq(one, &slot)));
            if let Some(slot) = place.and_then(|place| self.whole.remove(place)) {
                self.bytes -= slot.bytes();
            }
        }
    }

    /// Gives up the oldest answer, not its key. How many bytes it had.
    fn give_up_answer(&mut self) -> usize {
        let slot = self.whole.pop_front();
        let bytes = slot.as_ref().map_or(0, |slot| slot.bytes());
        if let Some(slot) = slot {
            slot.answer.send_replace(Some(StoredResponse::Gone));
        }
        self.bytes -= bytes;
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Carries a request out whose answer has so many bytes; whether it was carried out.
    async fn request(all: &Idempotency, tenant: &str, key: &str, bytes: usize) -> bool {
        let tenant = tenant.parse().unwrap();
        match all.claim(&tenant, key, [0; 32]).unwrap() {
            Claim::Again(_) => false,
            Claim::First(slot) => {
                let answer = vec![b'x'; bytes].into_response();
                all.keep(&tenant, &slot, answer).await;
                true
            }
        }
    }

    async fn repeat(all: &Idempotency, tenant: &str, key: &str) -> Result<(), Code> {
        let claim = all.claim(&tenant.parse().unwrap(), key, [0; 32]);
        let Ok(Claim::Again(slot)) = claim else {
            panic!("it would be carried out again");
        };
        slot.earlier()
            .await
            .map(drop)
            .map_err(|problem| problem.code)
    }

    fn bytes(all: &Idempotency, tenant: &str) -> usize {
        let tenant: TenantName = tenant.parse().unwrap();
        lock(&all.tenants).get(&tenant).unwrap().bytes
    }

    #[tokio::test]
    async fn answers_are_bounded_by_bytes_and_nothing_is_done_twice() {
        let all = Idempotency::default();
        let largest = usize::try_from(MAX_ANSWER).unwrap();
        assert!(request(&all, "a", "large", largest + 1).await);
        assert_eq!(repeat(&all, "a", "large").await, Err(Code::AnswerGone));
        assert_eq!(bytes(&all, "a"), 0);
        for n in 0..100 {
            assert!(request(&all, "a", &n.to_string(), largest).await);
        }
        assert!(bytes(&all, "a") <= TENANT_BYTES);
        assert_eq!(repeat(&all, "a", "0").await, Err(Code::AnswerGone));
        assert_eq!(repeat(&all, "a", "99").await, Ok(()));
        // Whoever has most makes room.
        assert!(request(&all, "b", "one", 1000).await);
        for tenant in 0..=MAX_BYTES / TENANT_BYTES {
            for n in 0..TENANT_BYTES / largest {
                assert!(request(&all, &format!("t{tenant}"), &n.to_string(), largest).await);
            }
        }
        let sum: usize = lock(&all.tenants).values().map(|one| one.bytes).sum();
        assert!(sum <= MAX_BYTES, "{sum}");
        assert_eq!(repeat(&all, "b", "one").await, Ok(()));
    }

    #[tokio::test]
    async fn keys_are_bounded_by_number() {
        let all = Idempotency::default();
        for n in 0..MAX_KEPT + 10 {
            assert!(request(&all, "a", &n.to_string(), 10).await);
        }
        let tenant: TenantName = "a".parse().unwrap();
        let tenants = lock(&all.tenants);
        let answers = &tenants[&tenant];
        assert_eq!(answers.by_key.len(), MAX_KEPT);
        assert_eq!(answers.whole.len(), MAX_KEPT);
        let sum: usize = answers.whole.iter().map(|slot| slot.bytes()).sum();
        assert_eq!(answers.bytes, sum);
    }
}
