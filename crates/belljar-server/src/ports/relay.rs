//! One request to a program in a session, and its hostile response.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{Method, StatusCode, Uri};
use axum::response::Response;
use belljar_sandbox::PortStream;
use futures_util::stream;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional_with_sizes};
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use super::entry::without_link;
use super::headers::{for_client, for_guest};
use crate::hop::{upgrade, upgrades};
use crate::listener::Listener;
use crate::lock::lock;
use crate::problem::{Code, Problem};
use crate::service::{Caller, Service};
use crate::sessions::SessionEntry;
use crate::streams::KEY_CHECK;

/// The most bytes of the head of a response, and the most headers.
const MAX_HEAD: usize = 64 << 10;
const MAX_HEADERS: usize = 100;

/// From the last byte of a request to the end of the head of its response.
const HEAD_TIME: Duration = Duration::from_mins(1);

/// How long nothing may be said in either direction.
const IDLE_TIME: Duration = Duration::from_mins(5);

/// What is held of each direction of a WebSocket.
const PART: usize = 16 << 10;

/// A response of a program in a session: the service adds nothing to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FromGuest;

pub(super) async fn forward(
    service: &Arc<Service>,
    caller: &Caller,
    session: &SessionEntry,
    port: u16,
    mut request: Request,
) -> Result<Response, Problem> {
    if request.method() == Method::CONNECT {
        return Err(Problem::new(Code::MethodNotAllowed, "a port is no proxy"));
    }
    let socket = if upgrades(request.headers()) {
        let listener = Listener::new(service, caller)?;
        Some((listener, hyper::upgrade::on(&mut request)))
    } else {
        None
    };
    let stream = session.session()?.connect(port).await;
    let stream = stream.map_err(|error| session.explain(error))?;
    let activity = Arc::new(Activity::default());
    let stream = TokioIo::new(Observed {
        stream,
        activity: Arc::clone(&activity),
    });
    let handshake = http1::Builder::new()
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_HEADERS)
        .handshake::<_, Body>(stream);
    let (mut sender, connection) = handshake.await.map_err(|error| failed(&error))?;
    // Whatever ends this request ends the connection.
    let connection = AbortOnDropHandle::new(tokio::spawn(connection.with_upgrades()));
    let request = for_program(request, socket.is_some())?;
    let mut response = tokio::select! {
        response = sender.send_request(request) => response.map_err(|error| failed(&error))?,
        () = activity.no_head() => {
            let detail = format!("no response within {} seconds", HEAD_TIME.as_secs());
            return Err(Problem::new(Code::PortTimeout, detail));
        }
        () = service.over.cancelled() => return Err(Problem::draining()),
    };
    let is_switched = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    let has_agreed = is_switched && upgrades(response.headers());
    for_client(response.headers_mut());
    response.extensions_mut().insert(FromGuest);
    match socket {
        Some((listener, client)) if has_agreed => {
            upgrade(response.headers_mut());
            let guest = hyper::upgrade::on(&mut response);
            let socket = async move {
                // Ends by itself once the socket is handed over.
                let _connection = connection;
                if let Ok((client, guest)) = tokio::try_join!(client, guest) {
                    talk(client, guest, listener, &activity).await;
                }
            };
            tokio::spawn(socket.in_current_span());
            Ok(response.map(|_| Body::empty()))
        }
        _ if is_switched => {
            let detail = "it switched to a protocol that was not requested";
            Err(Problem::new(Code::PortFailed, detail))
        }
        _ => {
            let (parts, body) = response.into_parts();
            let flow = Flow {
                body,
                activity,
                service: Arc::clone(service),
                key: caller.prefix.clone(),
                _connection: connection,
            };
            Ok(Response::from_parts(parts, flow.into_body()))
        }
    }
}

/// What was wrong with the response is for the log: a program in a session chose it.
fn failed(error: &hyper::Error) -> Problem {
    tracing::debug!(%error, "cannot read the response of a program");
    let detail = format!(
        "it ended early, is not HTTP/1.1, or its head exceeds {MAX_HEAD} bytes or {MAX_HEADERS} headers"
    );
    Problem::new(Code::PortFailed, detail)
}

/// The request as the program gets it.
fn for_program(request: Request, is_socket: bool) -> Result<hyper::Request<Body>, Problem> {
    let (parts, body) = request.into_parts();
    let (page, _) = without_link(&parts.uri);
    let uri = Uri::try_from(page);
    let uri = uri.map_err(|error| Problem::new(Code::BadRequest, error.to_string()))?;
    let mut request = hyper::Request::new(body);
    *request.method_mut() = parts.method;
    *request.uri_mut() = uri;
    *request.headers_mut() = parts.headers;
    for_guest(request.headers_mut());
    if is_socket {
        upgrade(request.headers_mut());
    }
    Ok(request)
}

/// Passes messages of a WebSocket until one side ends, both are silent, or the key is no longer good.
async fn talk(
    client: hyper::upgrade::Upgraded,
    guest: hyper::upgrade::Upgraded,
    mut listener: Listener,
    activity: &Activity,
) {
    let (mut client, mut guest) = (TokioIo::new(client), TokioIo::new(guest));
    let over = listener.service.over.clone();
    let ended = async {
        loop {
            tokio::time::sleep(KEY_CHECK).await;
            if activity.is_idle() || !listener.check_key().await {
                return;
            }
        }
    };
    tokio::select! {
        _ = copy_bidirectional_with_sizes(&mut client, &mut guest, PART, PART) => {}
        () = ended => {}
        () = over.cancelled() => {}
    }
}

/// The body of a response, for as long as its client may have it.
struct Flow {
    body: Incoming,
    activity: Arc<Activity>,
    service: Arc<Service>,
    key: String,
    _connection: AbortOnDropHandle<hyper::Result<()>>,
}

impl Flow {
    fn into_body(self) -> Body {
        Body::from_stream(stream::unfold(self, |mut flow| async move {
            let part = flow.next().await?;
            Some((part, flow))
        }))
    }

    /// An error breaks the connection, so that nobody takes a part for the whole.
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            tokio::select! {
                frame = self.body.frame() => match frame?.map(hyper::body::Frame::into_data) {
                    Ok(Ok(data)) => return Some(Ok(data)),
                    // Trailers are not passed on.
                    Ok(Err(_)) => {}
                    Err(error) => return Some(Err(io::Error::other(error))),
                },
                () = tokio::time::sleep(KEY_CHECK) => {
                    if self.activity.is_idle() || !self.service.tenants.is_valid(&self.key).await {
                        return Some(Err(io::ErrorKind::TimedOut.into()));
                    }
                }
                () = self.service.over.cancelled() => {
                    return Some(Err(io::ErrorKind::ConnectionAborted.into()));
                }
            }
        }
    }
}

/// When something was last said on a connection.
#[derive(Debug)]
struct Activity(Mutex<Said>);

#[derive(Clone, Copy, Debug)]
struct Said {
    to_guest: Instant,
    at_all: Instant,
}

impl Default for Activity {
    fn default() -> Self {
        let now = Instant::now();
        Self(Mutex::new(Said {
            to_guest: now,
            at_all: now,
        }))
    }
}

impl Activity {
    fn is_idle(&self) -> bool {
        lock(&self.0).at_all.elapsed() >= IDLE_TIME
    }

    /// Waits until the head of a response is overdue. What a program says before does not count: it may say it a byte at
    /// a time.
    async fn no_head(&self) {
        loop {
            let waited = lock(&self.0).to_guest.elapsed();
            if waited >= HEAD_TIME {
                return;
            }
            tokio::time::sleep(HEAD_TIME.saturating_sub(waited)).await;
        }
    }
}

/// A connection to a program, and when something was last said on it.
struct Observed {
    stream: PortStream,
    activity: Arc<Activity>,
}

impl AsyncRead for Observed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = ready!(Pin::new(&mut self.stream).poll_read(context, buffer));
        lock(&self.activity.0).at_all = Instant::now();
        Poll::Ready(read)
    }
}

impl AsyncWrite for Observed {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes));
        let now = Instant::now();
        *lock(&self.activity.0) = Said {
            to_guest: now,
            at_all: now,
        };
        Poll::Ready(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
