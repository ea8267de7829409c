//! I12 to I17: names that an attacker answers for, through the live proxy. The session may reach `*.site.test`, and
//! the attacker is the name server of `site.test`: a real one, in the case's own network namespace.

use std::net::IpAddr;

use belljar_sandbox::{AllowList, Limits, Network, SessionOptions};

use crate::harness::{Case, Severity, environment_canary};
use crate::support::without_checkpoints;
use crate::world::{World, in_namespace};

/// What nobody may reach: each as an address that a name server can give.
const INNER: [&str; 20] = [
    "127.0.0.1",
    "127.8.8.8",
    "0.0.0.0",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.100.100.200",
    "192.0.0.192",
    "255.255.255.255",
    "::",
    "::1",
    "::ffff:10.1.2.3",
    "::ffff:127.0.0.1",
    "::10.1.2.3",
    "64:ff9b::a01:203",
    "64:ff9b:1::a01:203",
    "2002:a01:203::1",
    "fd00:ec2::254",
    "fe80::1",
];

fn digits(address: &str) -> String {
    match address.parse().unwrap() {
        IpAddr::V4(address) => format!("{:08x}", address.to_bits()),
        IpAddr::V6(address) => format!("{:032x}", address.to_bits()),
    }
}

fn allowed() -> SessionOptions {
    let list = AllowList::parse(["site.test", "*.site.test"]).unwrap();
    SessionOptions {
        network: Network::Allow(list),
        ..without_checkpoints(Limits::default())
    }
}

/// `get(HOST)`: what the session gets from there, in a word.
const GET: &str = r"
import http.client, os, socket, threading, urllib.error, urllib.request
def get(host, path='/', times=1):
    seen = []
    for _ in range(times):
        try:
            with urllib.request.urlopen(f'http://{host}{path}', timeout=60) as answer:
                seen.append('secret' if b'secret' in answer.read() else answer.status)
        except urllib.error.HTTPError as error: seen.append(error.code)
        except http.client.BadStatusLine as error: seen.append('secret' if 'SSH' in str(error) else 'broken')
        except OSError as error: seen.append(type(error).__name__)
    return seen
";

/// Runs a case in which the world is the attacker's. In the end nothing inside was reached.
fn attack(
    test: &str,
    (id, attack, expectation): (&'static str, &'static str, &'static str),
    body: impl AsyncFnOnce(&Case, &belljar_sandbox::Session, &World),
) {
    environment_canary();
    in_namespace(test, async |world: World| {
        let case = Case::begin(id, Severity::Exfil, attack, expectation).await;
        let session = case.session_of(allowed()).await;
        case.printed(&session, GET).await;
        body(&case, &session, &world).await;
        assert_eq!(
            world.secret.seen().connections,
            0,
            "something inside was reached"
        );
        assert_eq!(
            case.printed(&session, "print(get('site.test'))").await,
            "[200]\n"
        );
        case.end([session]).await;
    });
}

#[test]
fn i12_rebinding() {
    attack(
        "i_names::i12_rebinding",
        (
            "I12",
            "a name that is public when it is asked for first, and then loopback, private, link-local, a metadata service, 0.0.0.0, a mapped, translated or tunnelled address (20 of them); 0 seconds to live",
            "the first request goes to the public address, each later one is refused (403); nothing inside hears of any",
        ),
        async |case, session, world| {
            for inner in INNER {
                let host = format!("{}.then.site.test", digits(inner));
                let code = format!("print(get('{host}', times=3))");
                let seen = case.printed(session, code).await;
                assert_eq!(seen, "[200, 403, 403]\n", "{inner}");
                // One question for each kind of address and connection: nobody looks twice.
                let asked = world.asked().iter().filter(|name| **name == host).count();
                assert_eq!(asked, 6, "{inner}");
            }
        },
    );
}

#[test]
fn i13_flips() {
    attack(
        "i_names::i13_flips",
        (
            "I13",
            "names that are public and private in turn, asked for by eight threads at once, 160 times",
            "each request gets the public answer or a refusal; what was checked is what is connected to",
        ),
        async |case, session, _| {
            let hosts: Vec<String> = [
                "127.0.0.1",
                "10.1.2.3",
                "169.254.169.254",
                "100.100.100.200",
            ]
            .map(|inner| format!("{}.flips.site.test", digits(inner)))
            .into();
            let code = format!(
                "seen = []\nthreads = [threading.Thread(target=lambda host=host: seen.extend(get(host, times=20))) for host in {hosts:?} * 2]\n\
                 for thread in threads: thread.start()\nfor thread in threads: thread.join()\n\
                 print(len(seen), sorted(set(map(str, seen))))"
            );
            let seen = case.printed(session, code).await;
            assert!(
                ["160 ['200', '403']\n", "160 ['403']\n"].contains(&seen.as_str()),
                "{seen}"
            );
        },
    );
}

#[test]
fn i14_among_others() {
    attack(
        "i_names::i14_among_others",
        (
            "I14",
            "an inner address beside a public one, A and AAAA mixed, and hidden among twenty public ones",
            "one inner address in an answer refuses the name (403)",
        ),
        async |case, session, _| {
            for manner in ["with", "hides"] {
                for inner in INNER {
                    let host = format!("{}.{manner}.site.test", digits(inner));
                    let seen = case.printed(session, format!("print(get('{host}'))")).await;
                    assert_eq!(seen, "[403]\n", "{manner} {inner}");
                }
            }
        },
    );
}

#[test]
fn i15_aliases() {
    attack(
        "i_names::i15_aliases",
        (
            "I15",
            "chains of eight CNAMEs that end inside; an alias of itself; an alias of a name that the host's file of hosts turns inward",
            "refused (403) or not resolved (502), in bounded time",
        ),
        async |case, session, _| {
            for inner in INNER {
                let host = format!("{}.chain.site.test", digits(inner));
                let seen = case.printed(session, format!("print(get('{host}'))")).await;
                assert_eq!(seen, "[403]\n", "{inner}");
            }
            for host in ["own-alias.broken.site.test", "alias.site.test"] {
                let seen = case.printed(session, format!("print(get('{host}'))")).await;
                assert!(
                    ["[403]\n", "[502]\n"].contains(&seen.as_str()),
                    "{host}: {seen}"
                );
            }
        },
    );
}

#[test]
fn waits_i16_hostile_name_server() {
    attack(
        "i_names::waits_i16_hostile_name_server",
        (
            "I16",
            "a name server that is silent, answers with noise, with half a packet, with false counts, with a name without end, to another question or with another id",
            "not resolved (502), in 15 s at the most; others are served meanwhile, and the session after it",
        ),
        async |case, session, _| {
            let manners = [
                "silent",
                "empty",
                "short",
                "noise",
                "false-count",
                "loop",
                "other-question",
                "other-id",
                "failure",
            ];
            let code = format!(
                "import time\nseen = {{}}\ndef ask(manner):\n    started = time.monotonic()\n    seen[manner] = get(manner + '.broken.site.test'), time.monotonic() - started\n\
                 threads = [threading.Thread(target=ask, args=(manner,)) for manner in {manners:?}]\n\
                 for thread in threads: thread.start()\nfor thread in threads: thread.join()\n\
                 print(len(seen), {{str(one) for one, _ in seen.values()}}, [(name, took) for name, (_, took) in seen.items() if took > 15])"
            );
            let cell = belljar_sandbox::Cell {
                wall_time: Some(std::time::Duration::from_secs(90)),
                ..belljar_sandbox::Cell::from(code)
            };
            let outcome = case.outcome(session, cell).await;
            assert_eq!(outcome.stdout.text, "9 {'[502]'} []\n", "{outcome:?}");
        },
    );
}

#[test]
fn i17_behind_a_connection() {
    attack(
        "i_names::i17_behind_a_connection",
        (
            "I17",
            "a connection or a tunnel to a public address, and then: a second request on it to an inner name, a redirect inside, a greeting for another host, the name's next answer",
            "one request a connection; each further one is refused; the tunnel stays with the address that was checked",
        ),
        async |case, session, world| {
            let inner = format!("{}.then.site.test", digits("10.1.2.3"));
            let code = format!(
                r"
def talk(first, *then):
    with socket.create_connection(('127.0.0.1', 3128), 10) as one:
        one.settimeout(10)
        one.sendall(first)
        answer = one.recv(4096)
        for more in then:
            try: one.sendall(more); answer += one.recv(4096)
            except OSError: break
        try:
            while more := one.recv(4096): answer += more
        except OSError: pass
        return answer
plain = lambda host, path='/': f'GET http://{{host}}{{path}} HTTP/1.1\r\nHost: {{host}}\r\n\r\n'.encode()
for name, answer in [
    ('pipelined', talk(plain('site.test') + plain('private.site.test'))),
    ('second', talk(plain('site.test'), plain('private.site.test'))),
    ('tunnelled', talk(b'CONNECT {inner}:443 HTTP/1.1\r\n\r\n', plain('private.site.test'))),
]:
    print(name, b'secret' in answer, answer.count(b'HTTP/1.1 200'))
print(get('site.test', '/away'))
print(get('{inner}'))
"
            );
            assert_eq!(
                case.printed(session, code).await,
                "pipelined False 1\nsecond False 1\ntunnelled False 1\n[403]\n[403]\n"
            );
            assert_eq!(
                world.echo.seen().bytes,
                b"",
                "what is no TLS passed through a tunnel"
            );
        },
    );
}
