//! Archives that anyone may have uploaded: whatever they say, what is planned to be written lies beneath one
//! directory, and its contents within the archive.
//!
//! The input: one byte that says how it is used, then the archive. It is taken as it is; or, where the byte is odd, each
//! header gets the checksum that belongs to it, so that what is behind that is reached.
#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;

/// The reader is no part of what the library offers, so its file is compiled into this target.
#[path = "../../crates/belljar-sandbox/src/session/archive_plan.rs"]
mod archive_plan;

use archive_plan::{MAX_ENTRIES, plan};

const BLOCK: usize = 512;

fuzz_target!(|input: &[u8]| {
    let Some((how, archive)) = input.split_first() else {
        return;
    };
    let mut archive = archive.to_vec();
    if how % 2 == 1 {
        correct_checksums(&mut archive);
    }
    let length = archive.len() as u64;
    let Ok(planned) = plan(Cursor::new(&archive), length) else {
        return;
    };
    assert!(planned.len() <= MAX_ENTRIES);
    let mut last = 0;
    for entry in &planned {
        let parts = || entry.path.split('/');
        assert!(
            parts().all(|part| !["", ".", ".."].contains(&part)),
            "{:?}",
            entry.path
        );
        assert!(!entry.path.contains('\0'));
        assert!(parts().count() <= 64);
        if let Some(file) = &entry.contents {
            // One after another, each with a header of its own before it.
            assert!(file.offset >= last + BLOCK as u64);
            last = file.offset + file.bytes;
            assert!(last <= length);
        }
    }
    // The same again, of an archive whose contents are others: only headers matter.
    for file in planned.iter().filter_map(|entry| entry.contents.as_ref()) {
        let from = usize::try_from(file.offset).unwrap();
        let to = from + usize::try_from(file.bytes).unwrap();
        archive[from..to].fill(b'x');
    }
    assert_eq!(plan(Cursor::new(&archive), length).unwrap(), planned);
});

/// Walks from header to header as they say.
fn correct_checksums(archive: &mut [u8]) {
    let mut at = 0;
    while let Some(block) = archive.get_mut(at..at + BLOCK) {
        let mut header = tar::Header::new_old();
        header.as_mut_bytes().copy_from_slice(block);
        header.set_cksum();
        block.copy_from_slice(header.as_bytes());
        let size = header.entry_size().unwrap_or(0);
        let Ok(size) = usize::try_from(size) else {
            return;
        };
        let Some(next) = size
            .checked_next_multiple_of(BLOCK)
            .and_then(|size| at.checked_add(BLOCK)?.checked_add(size))
        else {
            return;
        };
        at = next;
    }
}
