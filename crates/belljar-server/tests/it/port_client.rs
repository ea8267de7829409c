//! A port of a session, and clients of it.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, http};
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::support::{Ask as _, Client, World, options};

/// A service that offers ports.
pub(crate) fn offering_ports() -> belljar_server::ServerOptions {
    options(|options| options.ports_domain = Some("localhost".to_owned()))
}

/// A server in a thread of the interpreter: it answers with what it got, as JSON.
pub(crate) const ECHO: &str = r"
import base64, hashlib, http.server, json, socket, struct, threading, time
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def log_message(self, *args): pass
    def do_GET(self):
        if self.headers.get('upgrade', '').lower() == 'websocket':
            return self.web_socket()
        if self.path == '/events':
            return self.events()
        length = self.headers.get('content-length')
        if length:
            body = self.rfile.read(int(length))
        else:
            body = b''
            while self.headers.get('transfer-encoding') and (size := int(self.rfile.readline(), 16)):
                body += self.rfile.read(size)
                self.rfile.readline()
        text = json.dumps({
            'method': self.command, 'path': self.path, 'headers': self.headers.items(),
            'bytes': len(body), 'sum': list(hashlib.sha256(body).digest()),
        }).encode()
        self.send_response(200)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(text)))
        self.end_headers()
        if self.command != 'HEAD':
            self.wfile.write(text)
    do_HEAD = do_POST = do_PUT = do_DELETE = do_OPTIONS = do_GET
    def events(self):
        self.send_response(200)
        self.send_header('Content-Type', 'text/event-stream')
        self.end_headers()
        self.close_connection = True
        for number in range(10**6):
            self.wfile.write(b'data: %d\n\n' % number)
            if number == 0: first.wait()
            time.sleep(0.05)
    def web_socket(self):
        key = self.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
        self.send_response(101)
        self.send_header('Upgrade', 'websocket')
        self.send_header('Connection', 'Upgrade')
        self.send_header('Sec-WebSocket-Accept', base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        if protocol := self.headers.get('sec-websocket-protocol'):
            self.send_header('Sec-WebSocket-Protocol', protocol)
        self.end_headers()
        self.close_connection = True
        while True:
            first_byte, length = self.rfile.read(2)
            length &= 127
            if length == 126: length, = struct.unpack('>H', self.rfile.read(2))
            mask = self.rfile.read(4)
            text = bytes(byte ^ mask[i % 4] for i, byte in enumerate(self.rfile.read(length))).upper()
            head = bytes([first_byte, len(text)]) if len(text) < 126 else bytes([first_byte, 126]) + struct.pack('>H', len(text))
            self.wfile.write(head + text)
            if first_byte & 15 == 8: return
first = threading.Event()
server = http.server.ThreadingHTTPServer(('127.0.0.1', 8000), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print('on')
";

/// A port, as `POST …/ports/PORT` shows it.
pub(crate) struct Port {
    pub(crate) host: String,
    pub(crate) token: String,
    pub(crate) link: String,
    address: std::net::SocketAddr,
    http: reqwest::Client,
}

pub(crate) async fn port(world: &World, client: &Client, session: &str, port: u16) -> Port {
    let path = format!("{session}/ports/{port}");
    let shown = client.post(&path, json!({})).json_with(200).await;
    let text = |name: &str| shown[name].as_str().unwrap().to_owned();
    let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
    Port {
        host: text("host"),
        token: text("token"),
        link: text("link"),
        address: world.address,
        http: http.build().unwrap(),
    }
}

impl Port {
    /// The same by way of another node.
    pub(crate) fn at(self, world: &World) -> Self {
        Self {
            address: world.address,
            ..self
        }
    }

    /// The same with another host name.
    pub(crate) fn named(&self, host: String) -> Self {
        Self {
            host,
            token: self.token.clone(),
            link: self.link.clone(),
            address: self.address,
            http: self.http.clone(),
        }
    }

    /// A request without a credential, to the address of the service: no test relies on names of this machine.
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let url = format!("http://{}{path}", self.address);
        self.http.request(method, url).header("host", &self.host)
    }

    pub(crate) fn get(&self, path: &str) -> RequestBuilder {
        self.request(Method::GET, path)
    }

    /// A request with the token.
    pub(crate) fn ask(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.request(method, path);
        request.header("x-belljar-port-token", &self.token)
    }

    /// The cookie of a browser that opened the link.
    pub(crate) async fn cookie(&self) -> String {
        let page = self.link.split_once(&self.host).unwrap().1;
        let opened = self.get(page).with(303).await;
        let cookie = opened.headers()["set-cookie"].to_str().unwrap();
        cookie.split_once(';').unwrap().0.to_owned()
    }

    /// A WebSocket, or the status of the refusal.
    pub(crate) async fn socket(
        &self,
        headers: &[(&'static str, &str)],
    ) -> Result<(WebSocketStream<TcpStream>, http::HeaderMap), u16> {
        let url = format!("ws://{}/socket", self.host);
        let mut request = url.into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        let stream = TcpStream::connect(self.address).await.unwrap();
        match client_async(request, stream).await {
            Ok((socket, response)) => Ok((socket, response.headers().clone())),
            Err(Error::Http(response)) => Err(response.status().as_u16()),
            Err(error) => panic!("{error}"),
        }
    }
}

/// What the program got under a name of a header.
pub(crate) fn got<'a>(seen: &'a Value, name: &str) -> Vec<&'a str> {
    let headers = seen["headers"].as_array().unwrap().iter();
    let named = headers.filter(|one| one[0].as_str().unwrap().eq_ignore_ascii_case(name));
    named.map(|one| one[1].as_str().unwrap()).collect()
}
