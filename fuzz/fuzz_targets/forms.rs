//! Forms with files: whatever the pieces, names and contents are the same, and they are bytes of the body.
//!
//! The input: the first byte is the size of the pieces, the rest is the body. Its boundary is `B`.
#![no_main]

use std::io;

use futures_util::{FutureExt as _, StreamExt as _, stream};
use libfuzzer_sys::fuzz_target;
use multer::bytes::Bytes;

#[path = "../../crates/belljar-server/src/api/form.rs"]
mod form;

use form::{Form, reason};

/// Name, file name and contents of a part.
type Part = (Option<String>, Option<String>, Vec<u8>);

/// All parts of a form that comes in pieces, and whether it ends as a form does.
fn read(bytes: &[u8], size: usize) -> (Vec<Part>, bool) {
    let pieces: Vec<_> = bytes.chunks(size).map(Bytes::copy_from_slice).collect();
    let body = stream::iter(pieces).map(io::Result::Ok);
    let all = async {
        let (mut form, mut parts) = (Form::new(body, "B".to_owned()), Vec::new());
        loop {
            let mut part = match form.next().await {
                Ok(Some(part)) => part,
                Ok(None) => return (parts, true),
                Err(error) => {
                    assert!(!reason(&error).is_empty());
                    return (parts, false);
                }
            };
            let mut contents = Vec::new();
            loop {
                match part.chunk().await {
                    Ok(Some(bytes)) => contents.extend_from_slice(&bytes),
                    Ok(None) => break,
                    Err(_) => return (parts, false),
                }
            }
            let text = |name: Option<&str>| name.map(str::to_owned);
            parts.push((text(part.name()), text(part.file_name()), contents));
        }
    };
    futures_util::pin_mut!(all);
    // A body in memory is never waited for, but each piece is one poll.
    for _ in 0..=2 * bytes.len() + 8 {
        if let Some(found) = (&mut all).now_or_never() {
            return found;
        }
    }
    panic!("a form that never ends");
}

fuzz_target!(|bytes: &[u8]| {
    let Some((size, body)) = bytes.split_first() else {
        return;
    };
    let (parts, whole) = read(body, usize::from(*size).max(1));
    assert_eq!(read(body, body.len().max(1)), (parts.clone(), whole));
    let total: usize = parts.iter().map(|(_, _, contents)| contents.len()).sum();
    assert!(total <= body.len());
    for (_, _, contents) in parts {
        let found =
            contents.is_empty() || body.windows(contents.len()).any(|part| part == contents);
        assert!(found, "contents that were not sent");
    }
});
