//! How a request is carried out: its body read, its effect had once, to its end.

use std::sync::Arc;

use axum::body::HttpBody as _;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::admission::Permit;
use crate::body::{SharedUpload, Upload};
use crate::charged::SMALL;
use crate::idempotency::{Claim, Earlier, Slot};
use crate::peers::Connection;
use crate::problem::Problem;
use crate::requests::{changes, idempotency_key, takes, wants_stream};
use crate::service::{Caller, Service};

/// Whether somebody still waits for the answer. A request is carried out either way.
#[derive(Clone, Debug)]
pub(crate) struct ClientGone(CancellationToken);

impl ClientGone {
    /// Waits until the client has hung up.
    pub(crate) async fn wait(&self) {
        self.0.cancelled().await;
    }
}

pub(crate) async fn work(
    State(service): State<Arc<Service>>,
    caller: Caller,
    request: Request,
    next: Next,
) -> Response {
    let permit = match service.admission.request(&caller.tenant) {
        Ok(permit) => Arc::new(permit),
        Err(problem) => return problem.into_response(),
    };
    let connection = request.extensions().get::<Arc<Connection>>().cloned();
    let done = carry_out(service, caller, request, next, &permit).await;
    let answer = done.unwrap_or_else(IntoResponse::into_response);
    match connection {
        // A client that does not take its answer holds a permit.
        Some(connection) => connection.hold(answer, permit),
        None => answer,
    }
}

async fn carry_out(
    service: Arc<Service>,
    caller: Caller,
    mut request: Request,
    next: Next,
    permit: &Arc<Permit>,
) -> Result<Response, Problem> {
    let permit = Arc::clone(permit);
    // Dropped with the request, when it is answered or its client is gone.
    let gone = CancellationToken::new();
    let _here = gone.clone().drop_guard();
    request.extensions_mut().insert(ClientGone(gone));
    if !changes(request.method()) {
        let connection = request.extensions().get::<Arc<Connection>>().cloned();
        let answer = to_its_end(next.run(request), permit).await?;
        let answer = service
            .admission
            .charged
            .answer(&caller.tenant, answer)
            .await?;
        let large = answer.size_hint().exact() > Some(SMALL as u64);
        return match connection {
            // As a large body does: it is in memory until it is sent.
            Some(connection) if large => {
                let transfer = service.admission.transfer(&caller.tenant)?;
                Ok(connection.hold(answer, transfer))
            }
            _ => Ok(answer),
        };
    }
    if service.is_draining() {
        return Err(Problem::draining());
    }
    let key = idempotency_key(request.headers())?;
    let body = std::mem::take(request.body_mut());
    let route = request.extensions().get::<MatchedPath>();
    let takes = takes(route.map_or("", MatchedPath::as_str), &service.options);
    // Without a key, nobody asks whether it is the same request again.
    let mut fingerprint = key.is_some().then(Sha256::new);
    if let Some(fingerprint) = &mut fingerprint {
        for part in [request.method().as_str(), &request.uri().to_string()] {
            fingerprint.update(part.as_bytes());
            fingerprint.update([0]);
        }
    }
    let headers = request.headers();
    let tenant = &caller.tenant;
    let upload = Upload::read(headers, body, takes, &service, tenant, fingerprint.as_mut()).await?;
    let (Some(key), Some(fingerprint)) = (key, fingerprint) else {
        request.extensions_mut().insert(SharedUpload::new(upload));
        return to_its_end(next.run(request), permit).await;
    };
    let claim = service
        .idempotency
        .claim(tenant, &key, fingerprint.finalize().into())?;
    match claim {
        Claim::Again(slot) => again(&slot, &service, &caller, request.headers()).await,
        Claim::First(slot) => {
            request.extensions_mut().insert(SharedUpload::new(upload));
            request.extensions_mut().insert(Arc::clone(&slot));
            let answer = async move {
                // Whoever waits for the answer gets one, whatever becomes of the request.
                let response = to_its_end(next.run(request), permit).await;
                let response = response.unwrap_or_else(IntoResponse::into_response);
                let kept = service.idempotency.keep(&caller.tenant, &slot, response);
                kept.await
            };
            to_its_end(answer, ()).await
        }
    }
}

/// The first answer to a request that came again.
async fn again(
    slot: &Slot,
    service: &Arc<Service>,
    caller: &Caller,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let mut response = match slot.earlier().await? {
        Earlier::Response(response) => response,
        Earlier::Cell(record) if wants_stream(headers) => record.stream(0, service, caller)?,
        Earlier::Cell(record) => record.answer().await,
    };
    let yes = HeaderValue::from_static("true");
    response.headers_mut().insert("idempotency-replayed", yes);
    Ok(response)
}

/// In a task of its own, so that a client who hangs up leaves nothing half done.
async fn to_its_end(
    work: impl Future<Output = Response> + Send + 'static,
    permit: impl Send + 'static,
) -> Result<Response, Problem> {
    let work = async move {
        let _permit = permit;
        work.await
    };
    let task = tokio::spawn(work.in_current_span());
    task.await
        .map_err(|error| Problem::internal("request failed", error))
}
