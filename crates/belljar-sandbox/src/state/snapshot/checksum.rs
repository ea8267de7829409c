//! The BLAKE3 hash of a file, on two threads.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use blake3::Hasher;
use blake3::hazmat::{
    ChainingValue, HasherExt as _, Mode, merge_subtrees_non_root, merge_subtrees_root,
};

/// What one thread hashes at a time, a subtree of the hash: a power of two.
const BLOCK: u64 = 4 << 20;
/// Bytes that are read at once: they stay in the CPU's cache.
const PIECE: usize = 256 << 10;

/// The hash of the first bytes of a file. One that is shorter is an error.
pub(super) fn hash(file: &File, length: u64) -> io::Result<[u8; 32]> {
    if length <= BLOCK {
        let whole = update(Hasher::new(), file, 0, length, &mut Vec::new())?;
        return Ok(whole.finalize().into());
    }
    let next = AtomicU64::new(0);
    let work = || hash_blocks(file, length, &next);
    let (mine, other) = thread::scope(|scope| {
        // Without another thread, this one hashes all.
        let other = thread::Builder::new().spawn_scoped(scope, work).ok();
        (work(), other.map(thread::ScopedJoinHandle::join))
    });
    let mut blocks = mine?;
    if let Some(other) = other {
        blocks.extend(other.map_err(|_| io::Error::other("hashing panicked"))??);
    }
    blocks.sort_unstable();
    let values: Vec<ChainingValue> = blocks.into_iter().map(|(_, value)| value).collect();
    let (left, right) = halves(&values);
    Ok(merge_subtrees_root(&subtree(left), &subtree(right), Mode::Hash).into())
}

/// Hashes blocks that no other thread has begun, until there are none; returns their positions and values.
fn hash_blocks(
    file: &File,
    length: u64,
    next: &AtomicU64,
) -> io::Result<Vec<(u64, ChainingValue)>> {
    let mut blocks = Vec::new();
    let mut piece = Vec::new();
    loop {
        let at = next.fetch_add(BLOCK, Ordering::Relaxed);
        if at >= length {
            return Ok(blocks);
        }
        let mut hasher = Hasher::new();
        hasher.set_input_offset(at);
        let hasher = update(hasher, file, at, BLOCK.min(length - at), &mut piece)?;
        blocks.push((at, hasher.finalize_non_root()));
    }
}

/// Adds these bytes of a file. `piece` is memory for them.
fn update(
    mut hasher: Hasher,
    file: &File,
    mut at: u64,
    mut left: u64,
    piece: &mut Vec<u8>,
) -> io::Result<Hasher> {
    piece.resize(PIECE, 0);
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
        let read = match file.read_at(&mut piece[..most], at) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hasher.update(&piece[..read]);
        at += read as u64;
        left -= read as u64;
    }
    Ok(hasher)
}

/// The left subtree of several blocks is the largest one that is full and not all of them.
fn halves(blocks: &[ChainingValue]) -> (&[ChainingValue], &[ChainingValue]) {
    blocks.split_at(1 << (blocks.len() - 1).ilog2())
}

fn subtree(blocks: &[ChainingValue]) -> ChainingValue {
    if let [one] = blocks {
        return *one;
    }
    let (left, right) = halves(blocks);
    merge_subtrees_non_root(&subtree(left), &subtree(right), Mode::Hash)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn the_hash_is_that_of_the_bytes_in_order() {
        let mut file = tempfile::tempfile().unwrap();
        let block = usize::try_from(BLOCK).unwrap();
        let bytes: Vec<u8> = (0..block * 5 + 3)
            .map(|at| (at * 31 + at / 977).to_le_bytes()[0])
            .collect();
        file.write_all(&bytes).unwrap();
        let around = |blocks: usize| [blocks * block - 1, blocks * block, blocks * block + 1];
        for length in [0, 1, PIECE + 1]
            .into_iter()
            .chain((1..=5).flat_map(around))
        {
            let expected: [u8; 32] = blake3::hash(&bytes[..length]).into();
            assert_eq!(hash(&file, length as u64).unwrap(), expected, "{length}");
        }
        for missing in [1, BLOCK] {
            let error = hash(&file, bytes.len() as u64 + missing).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        }
    }
}
