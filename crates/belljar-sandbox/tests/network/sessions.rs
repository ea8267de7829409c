//! The same through real sessions: code behind the walls, the proxy on the host, servers in the
//! test's network namespace.

use belljar_sandbox::protocol::{DeniedReason, Event, Outcome};
use belljar_sandbox::{AllowList, Engine, Environment, Network, Session, SessionOptions};

use crate::world::{PUBLIC, in_namespace};

fn allowed(list: &[&str]) -> SessionOptions {
    SessionOptions {
        network: Network::Allow(AllowList::parse(list).unwrap()),
        ..SessionOptions::default()
    }
}

fn engine() -> Engine {
    let python = std::env::split_paths(&std::env::var_os("PATH").unwrap())
        .map(|directory| directory.join("python3"))
        .find(|python| python.exists())
        .expect("python3 is missing: install python3");
    Engine::builder(Environment::from_python(&python).unwrap()).build()
}

async fn run(session: &Session, code: &str) -> (Outcome, Vec<(String, u16, DeniedReason)>) {
    let mut denials = Vec::new();
    let mut cell = session.run(code);
    while let Some(event) = cell.next().await {
        match event.unwrap() {
            Event::Denied(denial) => denials.push((denial.host, denial.port, denial.reason)),
            Event::Outcome(outcome) => return (*outcome, denials),
            _ => {}
        }
    }
    panic!("no outcome");
}

/// I4, I5, I7: what is allowed works with plain `urllib`; everything else fails and is reported; there
/// is no way around the proxy.
#[test]
fn sessions_reach_what_is_allowed_and_nothing_else() {
    in_namespace(
        "sessions::sessions_reach_what_is_allowed_and_nothing_else",
        |world| async move {
            let engine = engine();
            let session = engine.session_with(allowed(&["site.test"])).await.unwrap();
            let get =
                "import urllib.request\nprint(urllib.request.urlopen('http://site.test/').status)";
            let (outcome, denials) = run(&session, get).await;
            assert_eq!(outcome.stdout.text, "200\n", "{outcome:?}");
            assert_eq!(denials, []);
            let traffic = outcome.network.unwrap();
            assert_eq!(traffic.connections, 1);
            assert!(traffic.bytes_sent > 0 && traffic.bytes_received > 0);
            assert_eq!(world.asked().first().map(String::as_str), Some("site.test"));

            let other = "import urllib.error\ntry: urllib.request.urlopen('http://other.test/')\nexcept urllib.error.HTTPError as e: print(e.code, e.reason)";
            let (outcome, denials) = run(&session, other).await;
            assert!(
                outcome
                    .stdout
                    .text
                    .starts_with("403 belljar: other.test:80 is not on"),
                "{outcome:?}"
            );
            assert_eq!(
                denials,
                [("other.test".into(), 80, DeniedReason::NotListed)]
            );
            assert_eq!(outcome.network.unwrap().denials, 1);
            assert!(!world.asked().iter().any(|name| name.contains("other")));

            let around = format!(
                "import socket, os\nfor name in list(os.environ):\n    if 'proxy' in name.lower(): del os.environ[name]\n\
                 for family, kind, address in [(socket.AF_INET, socket.SOCK_STREAM, ('{PUBLIC}', 80)), (socket.AF_INET, socket.SOCK_DGRAM, ('{PUBLIC}', 53)), (socket.AF_INET6, socket.SOCK_STREAM, ('2606:4700::1111', 443))]:\n    \
                 try:\n        with socket.socket(family, kind) as s: s.settimeout(2); s.connect(address); s.send(b'x'); print('REACHED', address)\n    except OSError as e: print(e.strerror)\n\
                 try: print('RESOLVED', socket.getaddrinfo('site.test', 80))\nexcept OSError as e: print(type(e).__name__)"
            );
            let (outcome, denials) = run(&session, &around).await;
            assert_eq!(
                outcome.stdout.text,
                "Network is unreachable\nNetwork is unreachable\nNetwork is unreachable\ngaierror\n",
                "{outcome:?}"
            );
            assert_eq!(denials, []);

            // A session without a list has no proxy, and does not reach the other's.
            let none = engine.session().await.unwrap();
            let (outcome, _) = run(&none, "import socket\ntry: socket.create_connection(('127.0.0.1', 3128), 2)\nexcept OSError as e: print(e.strerror)").await;
            assert_eq!(outcome.stdout.text, "Connection refused\n");
            assert_eq!(outcome.network, None);
            drop((session, none));
            engine.shutdown().await;
        },
    );
}

/// A denial between two cells is reported with the next one, and a flood of them is counted.
#[test]
fn denials_of_threads_are_told_later_and_floods_are_bounded() {
    in_namespace(
        "sessions::denials_of_threads_are_told_later_and_floods_are_bounded",
        |_| async move {
            let engine = engine();
            let session = engine.session_with(allowed(&["site.test"])).await.unwrap();
            let flood = "import threading, urllib.request, time\n\
                def ask():\n    for i in range(100):\n        try: urllib.request.urlopen(f'http://no{i}.test/')\n        except OSError: pass\n\
                threads = [threading.Thread(target=ask) for _ in range(4)]\n\
                for thread in threads: thread.start()";
            let (mut told, mut counted, mut unreported) = (0, 0, 0);
            for cell in [
                flood,
                "time.sleep(0)",
                "for thread in threads: thread.join()",
            ] {
                let (outcome, denials) = run(&session, cell).await;
                let traffic = outcome.network.unwrap();
                told += denials.len() as u64;
                counted += traffic.denials;
                unreported += traffic.denials_unreported;
                tokio::time::sleep(std::time::Duration::from_secs(3)).await;
            }
            // Told or counted: none is lost.
            assert_eq!(counted, 400);
            assert_eq!(told + unreported, 400);
            assert!(unreported > 0, "all were reported");
            engine.shutdown().await;
        },
    );
}

/// A fork has the list, proxy and counters of its namespace group. Its denials go to the session that
/// the group began with, and there is no other way out for it, either.
#[test]
fn forks_share_the_list_and_the_proxy() {
    in_namespace(
        "sessions::forks_share_the_list_and_the_proxy",
        |world| async move {
            let engine = engine();
            let session = engine.session_with(allowed(&["site.test"])).await.unwrap();
            run(&session, "import socket, urllib.error, urllib.request").await;
            let fork = session.fork(1).await.unwrap().remove(0);
            let deep = fork.fork(1).await.unwrap().remove(0);
            let code = format!(
                "print(urllib.request.urlopen('http://site.test/').status)\n\
                 try: urllib.request.urlopen('http://other.test/')\nexcept urllib.error.HTTPError as e: print(e.code)\n\
                 try: socket.create_connection(('{PUBLIC}', 80), 2)\nexcept OSError as e: print(e.strerror)"
            );
            // The counters are the namespace group's: the second tells of the first one's, too.
            for (fork, so_far) in [(&fork, 1), (&deep, 2)] {
                let (outcome, denials) = run(fork, &code).await;
                assert_eq!(
                    outcome.stdout.text, "200\n403\nNetwork is unreachable\n",
                    "{outcome:?}"
                );
                assert_eq!(denials, []);
                let traffic = outcome.network.unwrap();
                assert_eq!((traffic.connections, traffic.denials), (so_far, so_far));
            }
            let (outcome, denials) = run(&session, "pass").await;
            let denied = ("other.test".into(), 80, DeniedReason::NotListed);
            assert_eq!(denials, [denied.clone(), denied]);
            assert_eq!(outcome.network.unwrap().connections, 2);
            assert!(!world.asked().iter().any(|name| name.contains("other")));
            // The proxy is the namespace group's: it outlives the session that it began with.
            drop(session);
            let (outcome, _) = run(&deep, &code).await;
            assert_eq!(
                outcome.stdout.text, "200\n403\nNetwork is unreachable\n",
                "{outcome:?}"
            );
            drop((fork, deep));
            engine.shutdown().await;
        },
    );
}
