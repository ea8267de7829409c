//! Connections: HTTP/1.1, with TLS or without, with deadlines, and no more of them than there is room for.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderValue, Method, Request, StatusCode, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::framing::is_websocket;
use crate::peers::{Connection, Peers};
use crate::tls::{Tls, has_certificate};
use crate::wire::{MAX_HEAD, Wire};

/// How long the head of a request may take, and how long a connection may be idle.
const HEAD_TIME: Duration = Duration::from_secs(15);

/// How long a client may take nothing of what is sent to it, in milliseconds; the kernel counts.
const SEND_TIME: u32 = 60_000;

/// What the kernel takes of an answer that it can't send yet. It would take megabytes, and say nothing for long of a client
/// that takes them slowly.
const UNSENT: u32 = 128 << 10;

/// How long connections may take to end when the service stops.
const CLOSE_TIME: Duration = Duration::from_secs(2);

/// What is said to a connection that there is no room for.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// Serves connections until `stop`, and then until the open ones have ended.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<Arc<Tls>>,
    router: Router,
    stop: CancellationToken,
) {
    let follow = tls
        .clone()
        .map(|tls| tokio::spawn(async move { tls.follow().await }));
    let peers = Peers::new();
    let mut open = JoinSet::new();
    loop {
        let (stream, address) = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, from)) => (stream, from.ip()),
                Err(error) => {
                    // Too many descriptors, most likely: some will be free again.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        while open.try_join_next().is_some() {}
        match peers.admit(address) {
            Some(admitted) => {
                let (tls, router, stop) = (tls.clone(), router.clone(), stop.clone());
                open.spawn(async move {
                    let connection = &admitted.0;
                    tokio::select! {
                        () = accepted(stream, tls.as_deref(), router, stop, connection) => {}
                        () = connection.wait_until_cut() => tracing::debug!("connection closed in favour of another"),
                    }
                });
            }
            // With TLS there is nobody yet to say it to.
            None if tls.is_some() => {}
            None => refuse(stream),
        }
    }
    drop(listener);
    if let Some(follow) = follow {
        follow.abort();
    }
    let all = async { while open.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(CLOSE_TIME, all).await;
}

async fn accepted(
    stream: TcpStream,
    tls: Option<&Tls>,
    router: Router,
    stop: CancellationToken,
    connection: &Arc<Connection>,
) {
    // Small answers go out at once.
    let _ = stream.set_nodelay(true);
    let _ = rustix::net::sockopt::set_tcp_user_timeout(&stream, SEND_TIME);
    let _ = SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT);
    let Some(tls) = tls else {
        let wire = Wire::new(stream, Arc::clone(connection));
        return talk(wire, router, stop, connection).await;
    };
    let agreed = tokio::select! {
        agreed = tls.accept(stream) => agreed,
        () = stop.cancelled() => None,
    };
    if let Some(stream) = agreed {
        if has_certificate(&stream) {
            connection.note_node();
        }
        let wire = Wire::new(stream, Arc::clone(connection));
        talk(wire, router, stop, connection).await;
    }
}

async fn talk(
    wire: Wire<impl AsyncRead + AsyncWrite + Send + Unpin + 'static>,
    router: Router,
    stop: CancellationToken,
    connection: &Arc<Connection>,
) {
    let router = TowerToHyperService::new(router);
    let service = service_fn(|mut request: Request<Incoming>| {
        let last = is_last(&request);
        request.extensions_mut().insert(Arc::clone(connection));
        let answer = router.call(request);
        async move {
            let mut answer = answer.await?;
            if last && answer.status() != StatusCode::SWITCHING_PROTOCOLS {
                let close = HeaderValue::from_static("close");
                answer.headers_mut().insert(header::CONNECTION, close);
            }
            Ok::<_, std::convert::Infallible>(answer)
        }
    });
    let talk = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(wire), service)
        .with_upgrades();
    tokio::pin!(talk);
    let ended = tokio::select! {
        ended = talk.as_mut() => ended,
        () = stop.cancelled() => {
            talk.as_mut().graceful_shutdown();
            talk.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended early");
    }
}

/// Whether nothing after this request is read: its body has an [unknown length](crate::framing::BodyLength::Unknown).
fn is_last(request: &Request<Incoming>) -> bool {
    let headers = request.headers();
    let mut upgrades = headers.get_all(header::UPGRADE).iter();
    request.method() == Method::CONNECT
        || headers.contains_key(header::TRANSFER_ENCODING)
        || upgrades.any(|upgrade| is_websocket(upgrade.as_bytes()))
}

fn refuse(mut stream: TcpStream) {
    tokio::spawn(async move {
        let _ = tokio::time::timeout(HEAD_TIME, stream.write_all(FULL)).await;
    });
}
