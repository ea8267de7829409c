//! The server itself.

use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::record::Recorded;
use crate::script::Scripted;
use crate::wire::{Rendered, render};

/// The largest request that is read.
const MAX_REQUEST: usize = 64 << 20;

type Script = Box<dyn FnMut(&Recorded) -> Scripted + Send>;

struct ServerState {
    script: Mutex<Script>,
    requests: Mutex<Vec<Recorded>>,
}

/// A running server. It ends when this is dropped.
pub struct ScriptedModel {
    address: SocketAddr,
    state: Arc<ServerState>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for ScriptedModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScriptedModel")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl ScriptedModel {
    /// Answers one after another. A request beyond the last is refused with status 400.
    pub fn start(script: impl IntoIterator<Item = Scripted>) -> io::Result<Self> {
        let mut answers = script.into_iter().collect::<Vec<_>>().into_iter();
        Self::react(move |_| {
            let none_left = || Scripted::status(400, "the script has no answer left");
            answers.next().unwrap_or_else(none_left)
        })
    }

    /// Answers as a function of the request. If it panics, the request is refused with status 400.
    pub fn react(script: impl FnMut(&Recorded) -> Scripted + Send + 'static) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let state = Arc::new(ServerState {
            script: Mutex::new(Box::new(script)),
            requests: Mutex::new(Vec::new()),
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let served = Arc::clone(&state);
        let thread = std::thread::Builder::new()
            .name("scripted-model".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        _ = stopped => {}
                        _ = serve(listener, served) => {}
                    }
                });
            })?;
        Ok(Self {
            address,
            state,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// The address before `/chat/completions` or `/messages`.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// All requests so far, in order.
    pub fn requests(&self) -> Vec<Recorded> {
        self.state
            .requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Drop for ScriptedModel {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic in there has shown itself already
        }
    }
}

async fn serve(listener: std::net::TcpListener, state: Arc<ServerState>) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let mut connections = JoinSet::new(); // ends with this function
    loop {
        let (stream, _) = listener.accept().await?;
        connections.spawn(answer(stream, Arc::clone(&state)));
        while connections.try_join_next().is_some() {}
    }
}

async fn answer(mut stream: TcpStream, state: Arc<ServerState>) -> io::Result<()> {
    stream.set_nodelay(true)?; // pieces arrive as they were cut
    let Some(request) = read_request(&mut stream).await? else {
        return Ok(());
    };
    let number = {
        let mut requests = state
            .requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        requests.push(request.clone());
        requests.len()
    };
    let scripted = match (request.method.as_str(), request.path.as_str()) {
        ("POST", "/v1/chat/completions" | "/v1/messages") => {
            let mut script = state.script.lock().unwrap_or_else(PoisonError::into_inner);
            catch_unwind(AssertUnwindSafe(|| script(&request)))
                .unwrap_or_else(|_| Scripted::status(400, "the script panicked"))
        }
        ("GET", "/v1/models") => {
            let models =
                json!({"object": "list", "data": [{"id": "scripted-model", "object": "model"}]});
            Scripted::raw("application/json", models.to_string())
        }
        _ => Scripted::status(404, "there is nothing here"),
    };
    send(&mut stream, &scripted, render(&scripted, &request, number)).await
}

/// Reads a request; none if the connection ends before one is complete.
async fn read_request(stream: &mut TcpStream) -> io::Result<Option<Recorded>> {
    let mut bytes = Vec::new();
    let (mut request, length, start) = loop {
        if stream.read_buf(&mut bytes).await? == 0 || bytes.len() > MAX_REQUEST {
            return Ok(None);
        }
        if let Some(head) = parse_head(&bytes)? {
            break head;
        }
    };
    while bytes.len() < start + length {
        if length > MAX_REQUEST || stream.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
    }
    request.body = bytes[start..start + length].to_vec();
    Ok(Some(request))
}

/// The head of a request, the length of its body and where that starts; none if it is not complete.
fn parse_head(bytes: &[u8]) -> io::Result<Option<(Recorded, usize, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut head = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(start) = head.parse(bytes).map_err(io::Error::other)? else {
        return Ok(None);
    };
    let headers: Vec<(String, String)> = head
        .headers
        .iter()
        .map(|header| {
            (
                header.name.to_lowercase(),
                String::from_utf8_lossy(header.value).into_owned(),
            )
        })
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length
        .and_then(|(_, value)| value.parse().ok())
        .unwrap_or(0);
    let method = head.method.unwrap_or_default();
    let path = head.path.unwrap_or_default();
    Ok(Some((Recorded::new(method, path, headers), length, start)))
}

async fn send(stream: &mut TcpStream, scripted: &Scripted, rendered: Rendered) -> io::Result<()> {
    sleep(scripted.before).await;
    let headers = scripted
        .headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"));
    let headers: String = headers.collect();
    let head = format!(
        "HTTP/1.1 {} Scripted\r\ncontent-type: {}\r\ntransfer-encoding: chunked\r\nconnection: close\r\n{headers}\r\n",
        rendered.status, rendered.kind
    );
    stream.write_all(head.as_bytes()).await?;
    let end = scripted.cut_after.or(scripted.hang_after);
    let mut left = end.unwrap_or(usize::MAX);
    let repeated = rendered.pieces.last().filter(|_| rendered.endless);
    let pieces = rendered
        .pieces
        .iter()
        .chain(repeated.into_iter().flat_map(std::iter::repeat));
    for (index, piece) in pieces.enumerate() {
        if index > 0 && !scripted.between.is_zero() {
            sleep(scripted.between).await;
        }
        let piece = &piece[..piece.len().min(left)];
        left -= piece.len();
        if !piece.is_empty() {
            let size = format!("{:x}\r\n", piece.len());
            stream
                .write_all(&[size.as_bytes(), piece, b"\r\n"].concat())
                .await?;
        }
        if left == 0 {
            if scripted.hang_after.is_some() {
                stream.read_u8().await?; // until the client leaves
            }
            return Ok(()); // the end of the body is never sent
        }
    }
    stream.write_all(b"0\r\n\r\n").await?;
    stream.shutdown().await
}
