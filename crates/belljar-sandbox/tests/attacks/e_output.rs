//! E: output and what shows it.

use std::time::Instant;

use belljar_sandbox::protocol::{Cause, Event, Fate, Language, Outcome, Status, Stream};
use belljar_sandbox::{Cell, Limits, Session};

use crate::d_channel::{all, forging};
use crate::harness::{Case, Severity};
use crate::support::{
    Log, Stopwatch, eventually, forget_highest_resident, highest_resident, template,
};

/// Runs a cell and returns all events of it.
async fn told(session: &Session, cell: impl Into<Cell>) -> (Vec<Event>, Outcome) {
    let mut run = session.run(cell);
    let mut events = Vec::new();
    loop {
        match run.next().await.unwrap().unwrap() {
            Event::Outcome(outcome) => return (events, *outcome),
            event => events.push(event),
        }
    }
}

/// What was streamed while the cell ran.
fn live(events: &[Event], of: Stream) -> String {
    let texts = events.iter().filter_map(|event| match event {
        Event::Output { stream, text } if *stream == of => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// An outcome is JSON that can be read again, without loss.
fn check_json(outcome: &Outcome) {
    let text = serde_json::to_string(outcome).unwrap();
    assert_eq!(&serde_json::from_str::<Outcome>(&text).unwrap(), outcome);
    assert!(!text.contains(|c: char| c < ' '), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_e1_print_without_end() {
    let case = Case::begin(
        "E1",
        Severity::HostDos,
        "print 10 GB",
        "stopped at the limit of output (here 300 MB); the outcome holds head and tail, a file on the host the first 64 MiB; the host's memory stays flat, the sibling does not notice",
    )
    .await;
    let session = case
        .session_with(Limits {
            output_bytes: 300 << 20,
            milli_cpus: 1000,
            ..Limits::default()
        })
        .await;
    let code = "import os\nprint('the head', flush=True)\nblock = b'0123456789abcde\\n' * 65536\nfor i in range(10 * 1024): os.write(1, block)";
    let watch = case.watch_sibling();
    let before = forget_highest_resident();
    let outcome = case.fails(&session, code).await;
    let grown = highest_resident().saturating_sub(before);
    assert!(grown < 24 << 10, "the host grew by {grown} kB");
    let limit_bytes = 300 << 20;
    assert_eq!(outcome.cause, Cause::OutputLimit { limit_bytes });
    let stdout = &outcome.stdout;
    assert!(stdout.text.starts_with("the head\n0123456789abcde\n"));
    assert!(stdout.text.contains("bytes left out …]"));
    assert!(stdout.text.len() < (256 << 10) + 100);
    let file = stdout.file.as_ref().unwrap();
    assert_eq!(std::fs::metadata(file).unwrap().len(), 64 << 20);
    assert!(stdout.file_truncated && stdout.bytes < (310 << 20));
    watch.finish().await;
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn e2_one_endless_line() {
    let case = Case::begin(
        "E2",
        Severity::HostDos,
        "one line without an end, on both streams",
        "told in pieces as it comes, up to the live limit; then stopped as any output is",
    )
    .await;
    let session = case
        .session_with(Limits {
            output_bytes: 32 << 20,
            ..Limits::default()
        })
        .await;
    let code = "import os\nwhile True: os.write(1, b'x' * 65536); os.write(2, b'y' * 65536)";
    let (events, outcome) = told(&session, code).await;
    let limit_bytes = 32 << 20;
    assert_eq!(outcome.cause, Cause::OutputLimit { limit_bytes });
    assert_eq!(outcome.state, Fate::Kept);
    for (stream, output) in [
        (Stream::Stdout, &outcome.stdout),
        (Stream::Stderr, &outcome.stderr),
    ] {
        assert_eq!(live(&events, stream).len(), session.limits().live_bytes());
        let ends =
            |event: &&Event| matches!(event, Event::Truncated { stream: of } if *of == stream);
        assert_eq!(events.iter().filter(ends).count(), 1);
        assert!(output.omitted_bytes > 0 && output.text.len() < (256 << 10) + 100);
    }
    check_json(&outcome);
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_e3_single_bytes() {
    let case = Case::begin(
        "E3",
        Severity::HostDos,
        "single bytes on both streams by turns, each as soon as the host has read the one before",
        "at most a thousand events a second, whatever the number of writes; each stream keeps its order",
    )
    .await;
    let session = case.session().await;
    let slowness = Stopwatch::slowness();
    let code = r#"
import fcntl, os, termios, time
end = time.monotonic() + 3 * SLOWNESS
count = 0
while time.monotonic() < end:
    for fd in (1, 2):
        os.write(fd, b"%d" % (count % 10))
        while fcntl.ioctl(fd, termios.FIONREAD, b"\0\0\0\0") != b"\0\0\0\0":
            pass
    count += 1
"#;
    let started = Instant::now();
    let code = code.replace("SLOWNESS", &slowness.to_string());
    let (events, outcome) = told(&session, code.as_str()).await;
    let most = 1000 * (started.elapsed().as_secs() + 1);
    assert!(outcome.is_success(), "{outcome:#?}");
    assert!(
        outcome.stdout.bytes > u64::from(5_000 / slowness),
        "{} writes",
        outcome.stdout.bytes
    );
    assert!((events.len() as u64) < most, "{} events", events.len());
    for (stream, output) in [
        (Stream::Stdout, &outcome.stdout),
        (Stream::Stderr, &outcome.stderr),
    ] {
        let text = live(&events, stream);
        assert!(output.text.starts_with(&text));
        let digits = text.bytes().zip("0123456789".bytes().cycle());
        assert!(digits.into_iter().all(|(got, expected)| got == expected));
    }
    // Without pacing: many bytes are one event.
    let flood = "for i in range(300_000): os.write(1, b'x'); os.write(2, b'y')";
    let started = Instant::now();
    let (events, outcome) = told(&session, flood).await;
    let most = 1000 * (started.elapsed().as_secs() + 1);
    assert_eq!(
        (outcome.stdout.bytes, outcome.stderr.bytes),
        (300_000, 300_000)
    );
    assert!((events.len() as u64) < most, "{} events", events.len());
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn e4a_bytes_that_are_no_text() {
    let case = Case::begin(
        "E4a",
        Severity::Integrity,
        "every byte from 0 to 255, characters cut in the middle, overlong forms, encoded surrogates, on both streams",
        "what is not UTF-8 stands as \\xNN, NUL as itself; the outcome is valid JSON, which reads back the same",
    )
    .await;
    let session = case.session().await;
    let code = r#"
import os
for fd in (1, 2):
    os.write(fd, bytes(range(256)))
    os.write(fd, "北".encode()[:2])
    os.write(fd, b"\xc0\xaf\xed\xa0\x80\xf4\x90\x80\x80\xf0\x9f\x98")
"#;
    let (events, outcome) = told(&session, code).await;
    let plain: String = (0..128u8).map(char::from).collect();
    let high = (128..=255u8)
        .map(|byte| format!("\\x{byte:02x}"))
        .collect::<Vec<_>>()
        .concat();
    let rest = r"\xe5\x8c\xc0\xaf\xed\xa0\x80\xf4\x90\x80\x80\xf0\x9f\x98";
    for output in [&outcome.stdout, &outcome.stderr] {
        assert_eq!(output.text, format!("{plain}{high}{rest}"));
        assert_eq!(output.bytes, 256 + 2 + 12);
    }
    assert!(
        outcome
            .stdout
            .text
            .starts_with(&live(&events, Stream::Stdout))
    );
    check_json(&outcome);
    for event in &events {
        serde_json::from_str::<Event>(&serde_json::to_string(event).unwrap()).unwrap();
    }
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn e4b_surrogates_and_nul_everywhere() {
    let case = Case::begin(
        "E4b",
        Severity::Integrity,
        "lone surrogates and NUL in output, values, exceptions, names of types, variables and files, in exit messages",
        "surrogates stand as visible escapes; each outcome and manifest is valid JSON, which reads back the same; the session lives",
    )
    .await;
    let session = case.session().await;
    for (code, succeeds) in [
        (r"print('\ud800 \x00 \udfff')", true),
        (r"import sys; print('\udcff\x00', file=sys.stderr)", true),
        (r"'\ud800\x00'", true),
        (r"raise ValueError('\ud800\x00')", false),
        (r"globals()['\ud800\x00'] = '\ud800\x00'", true),
        (
            r"T = type('T', (), {})\nT.__qualname__ = '\ud800'\nT()",
            true,
        ),
        (
            r"E = type('E', (Exception,), {})\nE.__qualname__ = '\udcff'\nraise E('\udcff')",
            false,
        ),
        (r"open('\udcff\udc80.txt', 'w').write('x')", true),
        (r"sys.exit('\ud800\x00')", false),
        (
            r"class Html:\n    def _repr_html_(self): return '\ud800\x00'\nHtml()",
            true,
        ),
        (r"display('\ud800' * 100_000)", true),
    ] {
        let outcome = case.outcome(&session, code.replace("\\n", "\n")).await;
        assert_eq!(outcome.is_success(), succeeds, "{code}: {outcome:#?}");
        check_json(&outcome);
    }
    let outcome = case.outcome(&session, r"print('\ud800', end='')").await;
    assert_eq!(outcome.stdout.text, "\\ud800");
    let names = session.manifest().await.unwrap();
    assert!(
        names.iter().any(|info| info.name == "\\ud800\0"),
        "{names:?}"
    );
    serde_json::to_string(&names).unwrap();
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn e9a_pictures() {
    let case = Case::begin(
        "E9a",
        Severity::HostDos,
        "a PNG that says it has 100,000 × 100,000 pixels, one of 20 MB, an SVG with an entity bomb and a script, HTML of 5 MB",
        "what fits arrives as the bytes it is, and nothing decodes it; what is over 8 MiB (pictures) or 1 MiB (markup) is left out, and that is reported",
    )
    .await;
    let session = case.session().await;
    let code = r#"
import struct, zlib
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
size = struct.pack(">IIBBBBB", 100_000, 100_000, 8, 6, 0, 0, 0)
png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", zlib.compress(bytes(1 << 20))) + chunk(b"IEND", b"")
open("bomb.png", "wb").write(png)
svg = '<!DOCTYPE svg [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]><svg onload="alert(1)"><text>&c;</text></svg>'
class Shown:
    def __init__(self, **parts): self.parts = parts
    def __repr__(self): return "shown"
    def _repr_mimebundle_(self, **options): return {key.replace("_", "/", 1).replace("svg", "svg+xml"): value for key, value in self.parts.items()}
display(Shown(image_png=png))
display(Shown(image_png=bytes(20 << 20)))
display(Shown(image_svg=svg))
display(Shown(text_html="<script>" * 640_000))
"#;
    let outcome = case.outcome(&session, code).await;
    assert!(outcome.is_success(), "{outcome:#?}");
    let displays = &outcome.displays;
    assert_eq!(displays.len(), 4, "{:?}", outcome.notes);
    let png = session.get("bomb.png").unwrap();
    assert_eq!(displays[0].get("image/png").unwrap().data, png);
    assert!(displays[1].get("image/png").is_none());
    let svg = &displays[2].get("image/svg+xml").unwrap().data;
    assert!(svg.starts_with(b"<!DOCTYPE svg [<!ENTITY") && svg.len() < 300);
    assert!(displays[3].get("text/html").is_none());
    assert!(
        displays
            .iter()
            .all(|display| display.text() == Some("shown"))
    );
    assert_eq!(
        outcome.notes,
        [
            "image/png of a __main__.Shown: 20971520 bytes are over the limit of 8388608",
            "text/html of a __main__.Shown: 5120000 bytes are over the limit of 1048576",
        ]
    );
    check_json(&outcome);
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn e9b_thousands_of_displays() {
    let case = Case::begin(
        "E9b",
        Severity::HostDos,
        "10,000 displays; 32 MB of displays; the same past the driver, on its channel",
        "64 displays and 24 MiB of a cell are taken and the rest is reported as left out; past the driver, 100 and 32 MiB, then the channel counts as broken",
    )
    .await;
    let session = case.session().await;
    let outcome = case
        .outcome(&session, "for i in range(10_000): display(i)")
        .await;
    assert_eq!(outcome.displays.len(), 64);
    assert_eq!(outcome.notes, ["displays after the first 64"]);
    let code = "class Png:\n    def _repr_png_(self): return bytes(500_000)\nfor i in range(64): display(Png())";
    // Not by the case, which writes all that it gets as JSON and searches it: that takes long.
    let outcome = session.run(code).await.unwrap();
    let bytes: usize = outcome
        .displays
        .iter()
        .flat_map(|display| &display.parts)
        .map(|part| part.data.len())
        .sum();
    assert!(bytes <= 24 << 20, "{bytes} bytes");
    assert_eq!(outcome.notes, ["displays of this cell beyond 24 MiB"]);
    // The oracle asks for the memory that it holds.
    drop(outcome);
    let forged = |size: &str, count: u32| {
        forging(&format!(
            r#"
blob = bytes({size})
for i in range({count}):
    frame({{"type": "display", "cell": STATE.cell, "nonce": STATE.nonce, "parts": [{{"mime": "image/png", "len": len(blob)}}]}}, blob)
"#
        ))
    };
    let codes = [forged("1", 101), forged("400_000", 90)];
    all(codes.iter().map(|code| async {
        let session = case.session().await;
        let outcome = session.run(code.as_str()).await.unwrap();
        let detail = "too many displays".to_owned();
        assert_eq!(outcome.cause, Cause::Protocol { detail });
        assert_eq!(outcome.status, Status::Crashed);
        assert!(outcome.displays.len() <= 100);
        session.close().await.unwrap();
    }))
    .await;
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn e9c_displays_that_lie() {
    let case = Case::begin(
        "E9c",
        Severity::Integrity,
        "display frames whose parts are longer than their bytes, overlap, or have MIME types with line breaks, spaces or 10,000 characters",
        "the channel counts as broken; no header can be smuggled into what shows a display",
    )
    .await;
    let parts = [
        r#"[{"mime": "image/png", "len": 100}]"#,
        r#"[{"mime": "image/png", "len": 2}, {"mime": "image/png", "len": 2}]"#,
        r#"[{"mime": "image/png", "len": 18446744073709551615}]"#,
        r#"[{"mime": "image/png", "len": -1}]"#,
        r#"[{"mime": "text/html\r\nSet-Cookie: x", "len": 1}]"#,
        r#"[{"mime": "text/html; charset=x", "len": 1}]"#,
        r#"[{"mime": "x" * 10_000, "len": 1}]"#,
    ];
    all(parts.into_iter().map(|parts| {
        let case = &case;
        async move {
            let code = format!(
                r#"frame({{"type": "display", "cell": STATE.cell, "nonce": STATE.nonce, "parts": {parts}}}, b"abc")"#
            );
            let session = case.session().await;
            let outcome = case.fails(&session, forging(&code)).await;
            let Cause::Protocol { detail } = &outcome.cause else {
                panic!("{parts}: {outcome:#?}");
            };
            let known = ["a display whose parts do not match", "not a frame: "];
            assert!(known.iter().any(|words| detail.starts_with(words)), "{detail}");
            assert_eq!(outcome.displays, []);
            session.close().await.unwrap();
        }
    }))
    .await;
    case.end([]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn e10_lines_in_the_log() {
    let log = Log::begin();
    let case = Case::begin(
        "E10",
        Severity::Integrity,
        "lines that look like the host's log, with line breaks and JSON, in output, exceptions, frames, names of files and processes",
        "nothing that a session says is in the host's log",
    )
    .await;
    let fake = r#"fake = "\r\n2026-01-01T00:00:00Z ERROR belljar: FORGED {\"level\":\"error\"}\n""#;
    let session = case.session().await;
    for code in [
        "import os, sys\nprint(fake)\nprint(fake, file=sys.stderr)",
        "open(fake.replace('/', '_'), 'w').close()",
        "open('/proc/self/comm').read()\nimport ctypes\nctypes.CDLL(None).prctl(15, fake.encode(), 0, 0, 0)",
        "raise ValueError(fake)",
        "sys.exit(fake)",
    ] {
        case.outcome(&session, format!("{fake}\n{code}")).await;
    }
    let forged = [
        r#"frame({"type": "fault", "detail": fake})"#,
        r#"frame({"type": fake})"#,
        "os.write(2, fake.encode())\nos._exit(3)",
    ];
    all(forged.into_iter().map(|code| {
        let case = &case;
        async move {
            let session = case.session().await;
            case.fails(&session, forging(&format!("{fake}\n{code}\ntime.sleep(5)")))
                .await;
            session.close().await.unwrap();
        }
    }))
    .await;
    // The log is caught: this is in it.
    let killed = template().unwrap();
    let killed = rustix::process::Pid::from_raw(killed.cast_signed()).unwrap();
    rustix::process::kill_process(killed, rustix::process::Signal::KILL).unwrap();
    eventually("the report of a dead template", || {
        log.text().contains("a template died")
    })
    .await;
    case.end([session]).await;
    let text = log.text();
    assert!(!text.contains("FORGED"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn e5_commands_to_a_terminal() {
    let case = Case::begin(
        "E5",
        Severity::Integrity,
        "CSI, OSC 52 (the clipboard), OSC 8 (links), DCS, 8-bit C1, cursor moves and lines written over, in output, values, exceptions and names of files",
        "the outcome keeps them as data; the text for terminals and models has none, and shows what a line was written over with",
    )
    .await;
    let session = case.session().await;
    let code = r#"
attack = "".join([
    "\x1b[2J\x1b[1;1H", "\x1b]52;c;ZXZpbA==\x07", "\x1b]8;;https://evil.example/\x1b\\here\x1b]8;;\x1b\\",
    "\x1bP+q544e\x1b\\", "\x9b31m", "\x9d0;title\x9c", "\x1b[8mhidden\x1b[0m", "harmless\rrm -rf\b\b\b", "\x1bc",
])
open("\x1b[2J\u202efile", "w").close()
print(attack)
class Shown:
    def __repr__(self): return attack
display(Shown())
raise ValueError(attack)
"#;
    let outcome = case.fails(&session, code).await;
    assert!(outcome.stdout.text.contains("\x1b]52;c;ZXZpbA==\x07"));
    for language in [Language::English, Language::Chinese] {
        // Without the source, which spells it all out.
        let text = outcome.text("", language);
        let command = |c: char| c.is_control() && c != '\n' && c != '\t';
        assert!(!text.contains(command), "{text:?}");
        assert!(!text.contains("ZXZpbA=="), "{text}");
        assert!(text.contains("hidden") && text.contains("here"), "{text}");
        assert!(text.contains("<U+202E>file"), "{text}");
        assert!(!text.contains('\u{202e}'), "{text}");
    }
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn e6_names_in_disguise() {
    let case = Case::begin(
        "E6",
        Severity::Integrity,
        "names of files with text direction marks, characters without width, tags and fillers, that look like others",
        "in the text of an outcome each such character stands as its number; the artifact itself keeps its true name",
    )
    .await;
    let session = case.session().await;
    let code = r#"
names = ["report\u202efdp.exe", "pay\u200bments.csv", "a\U000e0041\U000e0042b", "\u2066x\u2069", "\u3164", "two\nlines"]
for name in names:
    open(name, "w").close()
"#;
    let outcome = case.outcome(&session, code).await;
    assert_eq!(outcome.artifacts.len(), 6);
    let paths: Vec<&str> = outcome
        .artifacts
        .iter()
        .map(|artifact| artifact.path.as_str())
        .collect();
    assert!(paths.contains(&"report\u{202e}fdp.exe"), "{paths:?}");
    let text = outcome.text("", Language::English);
    for shown in [
        "report<U+202E>fdp.exe",
        "pay<U+200B>ments.csv",
        "a<U+E0041><U+E0042>b",
        "<U+2066>x<U+2069>",
        "<U+3164>",
        "two<U+000A>lines",
    ] {
        assert!(text.contains(shown), "{shown}: {text}");
    }
    case.end([session]).await;
}
