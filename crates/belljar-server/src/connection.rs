//! Connections: HTTP/1.1, with TLS or without, with deadlines, and no more of them than there is room for.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::tls::Tls;

/// The most connections at once.
const MAX_CONNECTIONS: usize = 4096;

/// How long the head of a request may take, and how long a connection may be idle.
const HEAD_TIME: Duration = Duration::from_secs(15);

/// How long a client may take nothing of what is sent to it, in milliseconds; the kernel counts.
const SEND_TIME: u32 = 60_000;

/// The most bytes of the head of a request; twice as many where they arrive at once. Hyper itself allows 100
/// headers.
const MAX_HEAD: usize = 32 << 10;

/// How long connections may take to end when the service stops.
const CLOSE_TIME: Duration = Duration::from_secs(2);

/// What is said to a connection that there is no room for.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// Serves connections until it is told to stop, and then until those that are open have ended.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<Arc<Tls>>,
    router: Router,
    stop: CancellationToken,
) {
    let follow = tls
        .clone()
        .map(|tls| tokio::spawn(async move { tls.follow().await }));
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut open = JoinSet::new();
    loop {
        let stream = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Too many descriptors, most likely: some will be free again.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        while open.try_join_next().is_some() {}
        match Arc::clone(&places).try_acquire_owned() {
            Ok(place) => {
                let (tls, router, stop) = (tls.clone(), router.clone(), stop.clone());
                open.spawn(async move {
                    accepted(stream, tls.as_deref(), router, stop).await;
                    drop(place);
                });
            }
            // With TLS there is nobody yet to say it to.
            Err(_) if tls.is_some() => {}
            Err(_) => refuse(stream),
        }
    }
    drop(listener);
    if let Some(follow) = follow {
        follow.abort();
    }
    let all = async { while open.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(CLOSE_TIME, all).await;
}

async fn accepted(stream: TcpStream, tls: Option<&Tls>, router: Router, stop: CancellationToken) {
    // Small answers go out at once.
    let _ = stream.set_nodelay(true);
    let _ = rustix::net::sockopt::set_tcp_user_timeout(&stream, SEND_TIME);
    let Some(tls) = tls else {
        return connection(stream, router, stop).await;
    };
    let agreed = tokio::select! {
        agreed = tls.accept(stream) => agreed,
        () = stop.cancelled() => None,
    };
    if let Some(stream) = agreed {
        connection(stream, router, stop).await;
    }
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    router: Router,
    stop: CancellationToken,
) {
    let service = TowerToHyperService::new(router);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

fn refuse(mut stream: TcpStream) {
    tokio::spawn(async move {
        let _ = tokio::time::timeout(HEAD_TIME, stream.write_all(FULL)).await;
    });
}
