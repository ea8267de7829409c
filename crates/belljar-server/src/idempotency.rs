//! The same request, sent twice, has one effect: the answers of earlier requests, by the keys that their
//! clients gave them.
//!
//! In memory, as the sessions are that the answers tell of: neither outlives the service. Runs do, so that which run
//! a request has begun is on disk as well (`run_keys` of the tenants' file).

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt as _;
use tokio::sync::watch;

use crate::cells::CellRecord;
use crate::problem::{Code, Problem};
use crate::sessions::lock;
use crate::tenants::TenantName;

/// How long an answer is kept, and how many of a tenant.
const KEPT: Duration = Duration::from_hours(24);
const MAX_KEPT: usize = 4096;

/// The answers that are kept.
#[derive(Debug, Default)]
pub(crate) struct Idempotency {
    tenants: Mutex<HashMap<TenantName, Answers>>,
}

#[derive(Debug, Default)]
struct Answers {
    by_key: HashMap<String, Arc<Slot>>,
    /// The oldest first.
    order: VecDeque<(Instant, String)>,
}

/// The place for the answer to one request.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) key: String,
    pub(crate) fingerprint: [u8; 32],
    answer: watch::Sender<Option<Answer>>,
}

#[derive(Clone, Debug)]
enum Answer {
    Whole {
        status: StatusCode,
        headers: HeaderMap,
        body: Bytes,
    },
    /// A cell, which may still run. Its session keeps it for as long as it keeps cells.
    Cell(Weak<CellRecord>),
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

    /// Keeps the answer to a request. One that a retry may change is told to those who wait for it, and
    /// not kept.
    pub(crate) async fn keep(
        &self,
        tenant: &TenantName,
        key: &str,
        slot: &Slot,
        response: Response,
    ) -> Response {
        let status = response.status();
        let code = response.extensions().get::<Code>();
        let again = status.is_server_error() || code.is_some_and(|code| code.retry());
        if again {
            let mut tenants = lock(&self.tenants);
            if let Some(answers) = tenants.get_mut(tenant) {
                answers.by_key.remove(key);
                answers.order.retain(|(_, kept)| kept != key);
            }
        }
        if slot.answer.borrow().is_some() {
            // It is a cell.
            return response;
        }
        let (parts, body) = response.into_parts();
        // Answers to changes are short, but for those of cells.
        let body = body
            .collect()
            .await
            .map(http_body_util::Collected::to_bytes);
        let body = body.unwrap_or_default();
        slot.answer.send_replace(Some(Answer::Whole {
            status,
            headers: parts.headers.clone(),
            body: body.clone(),
        }));
        Response::from_parts(parts, Body::from(body))
    }
}

impl Slot {
    /// The answer is a cell that has begun.
    pub(crate) fn is_cell(&self, record: &Arc<CellRecord>) {
        let answer = Answer::Cell(Arc::downgrade(record));
        self.answer.send_replace(Some(answer));
    }

    /// The first answer, once it is there.
    pub(crate) async fn earlier(&self) -> Result<Earlier, Problem> {
        let mut told = self.answer.subscribe();
        let answer = told.wait_for(Option::is_some).await;
        let answer = answer.map_err(|error| Problem::internal("an earlier answer", error))?;
        match answer.clone() {
            Some(Answer::Cell(record)) => {
                let record = record.upgrade().ok_or_else(|| {
                    let detail = "the cell was run, and others have run since";
                    Problem::new(Code::AnswerGone, detail)
                })?;
                Ok(Earlier::Cell(record))
            }
            Some(Answer::Whole {
                status,
                headers,
                body,
            }) => {
                let mut response = (status, body).into_response();
                *response.headers_mut() = headers;
                Ok(Earlier::Response(response))
            }
            None => Err(Problem::internal("an earlier answer", "it is not there")),
        }
    }
}

/// The key came with another request before.
pub(crate) fn mismatch() -> Problem {
    let detail = "this `Idempotency-Key` came with another method, path or body; use a new one";
    Problem::new(Code::IdempotencyMismatch, detail)
}

impl Answers {
    fn give_up_old(&mut self) {
        while let Some((at, key)) = self.order.front() {
            if self.order.len() < MAX_KEPT && at.elapsed() < KEPT {
                return;
            }
            self.by_key.remove(key);
            self.order.pop_front();
        }
    }
}
