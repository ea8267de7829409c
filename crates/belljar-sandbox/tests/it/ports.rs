//! Ports: connections from outside to programs in a session.

use std::time::Duration;

use belljar_sandbox::{
    Capability, Command, Error, PortError, PortStream, Session, SessionOptions, Unsupported,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::{bare_environment, builder, engine, printed};

/// A server in the interpreter: a thread that answers each connection with what it reads, in capitals.
const ECHO: &str = r"
import socket, threading
listener = socket.create_server(('127.0.0.1', 8000))
def serve():
    while True:
        one, peer = listener.accept()
        with one:
            one.sendall(peer[0].encode() + b' ' + one.recv(100).upper())
threading.Thread(target=serve, daemon=True).start()
print('on')
";

async fn said(mut stream: PortStream, text: &str) -> String {
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

fn why(result: Result<PortStream, Error>) -> PortError {
    match result {
        Err(Error::Port(why)) => why,
        other => panic!("{other:?}"),
    }
}

async fn connected(session: &Session, port: u16) -> PortStream {
    for _ in 0..600 {
        match session.connect(port).await {
            Err(Error::Port(PortError::Refused(_))) => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            done => return done.unwrap(),
        }
    }
    panic!("nothing listens on port {port}");
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_of_a_session_are_reached_on_their_ports() {
    let session = engine().session().await.unwrap();
    assert_eq!(
        why(session.connect(8000).await),
        PortError::Refused(8000),
        "nothing listens yet"
    );
    assert_eq!(printed(&session, ECHO).await, "on\n");
    let stream = session.connect(8000).await.unwrap();
    assert_eq!(said(stream, "a cell").await, "127.0.0.1 A CELL");
    // While a cell runs, too; and a command.
    let busy = session.run("while listener: pass");
    let stream = session.connect(8000).await.unwrap();
    assert_eq!(said(stream, "busy").await, "127.0.0.1 BUSY");
    while !session.interrupt() {}
    busy.await.unwrap();
    let command = format!("{}threading.Event().wait()", ECHO.replace("8000", "9000"));
    let command = Command::new(["python", "-c", command.as_str()]);
    let command = session.spawn(command).await.unwrap();
    let stream = connected(&session, 9000).await;
    assert_eq!(said(stream, "a command").await, "127.0.0.1 A COMMAND");
    command.kill().unwrap();
    command.wait().await;
    assert_eq!(why(session.connect(9000).await), PortError::Refused(9000));
}

/// Each session has its own loopback, and none is that of the host.
#[tokio::test(flavor = "multi_thread")]
async fn a_port_is_of_its_session_alone() {
    let engine = engine();
    let (one, other) = (
        engine.session().await.unwrap(),
        engine.session().await.unwrap(),
    );
    let host = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = host.local_addr().unwrap().port();
    assert_eq!(why(one.connect(port).await), PortError::Refused(port));
    printed(&one, ECHO).await;
    assert_eq!(why(other.connect(8000).await), PortError::Refused(8000));
    let stream = one.connect(8000).await.unwrap();
    assert_eq!(said(stream, "x").await, "127.0.0.1 X");
    // Where the host itself listens in a session, and where no code in it can.
    for port in [0, 1, 1023, 3128] {
        assert_eq!(why(one.connect(port).await), PortError::NotOffered(port));
    }
    one.end();
    assert!(matches!(one.connect(8000).await, Err(Error::Ended(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_of_a_session_are_bounded() {
    let session = engine().session().await.unwrap();
    let silent = "import socket\nlistener = socket.create_server(('', 8000), backlog=64)\nprint(1)";
    printed(&session, silent).await;
    let mut open = Vec::new();
    for _ in 0..32 {
        open.push(session.connect(8000).await.unwrap());
    }
    let refused = why(session.connect(8000).await);
    assert_eq!(refused, PortError::TooMany { limit: 32 });
    open.pop();
    session.connect(8000).await.unwrap();
    // A program that takes none: its queue is full, and nobody waits for ever.
    let full = "listener.close()\nfull = socket.create_server(('', 8001), backlog=0)\nprint(1)";
    printed(&session, full).await;
    open.clear();
    let refused = loop {
        match session.connect(8001).await {
            Ok(stream) => open.push(stream),
            refused => break why(refused),
        }
    };
    assert_eq!(refused, PortError::Unanswered(8001));
}

/// An open connection keeps a session awake; a hibernated one has no programs, and is not woken.
#[tokio::test(flavor = "multi_thread")]
async fn ports_and_hibernation() {
    let options = SessionOptions {
        hibernate_after: Some(Duration::from_secs(1)),
        ..SessionOptions::default()
    };
    let session = engine().session_with(options).await.unwrap();
    printed(&session, ECHO).await;
    let mut stream = session.connect(8000).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(!session.is_hibernated());
    stream.write_all(b"still").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer, "127.0.0.1 STILL");
    drop(stream);
    session.hibernate().await.unwrap();
    assert_eq!(why(session.connect(8000).await), PortError::Refused(8000));
    assert!(session.is_hibernated());
}

/// The checkpoint of a cell that runs during a connection does not hold it open.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_ends_though_there_is_a_checkpoint() {
    let with_checkpoints = SessionOptions::default();
    let session = engine().session_with(with_checkpoints).await.unwrap();
    printed(&session, ECHO).await;
    let stream = connected(&session, 8000).await;
    // Until the thread has accepted it, and a cell more, whose checkpoint is made after it.
    printed(&session, "import time; time.sleep(0.3); print()").await;
    printed(&session, "print()").await;
    let answer = tokio::time::timeout(Duration::from_secs(20), said(stream, "end"));
    assert_eq!(answer.await.expect("it ends"), "127.0.0.1 END");
    // After a crash, the one that continues has no connection.
    let outcome = session.run("import ctypes; ctypes.string_at(0)").await;
    assert!(!outcome.unwrap().is_success());
    assert_eq!(
        printed(&session, "print(listener.fileno() > 0)").await,
        "True\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn without_walls_there_are_no_ports() {
    let engine = builder(bare_environment()).without_walls().build();
    let session = engine.session().await.unwrap();
    let refused = session.connect(8000).await;
    assert!(matches!(
        refused,
        Err(Error::Unsupported(Unsupported(Capability::Ports)))
    ));
}
