//! Values that tell the report of one cell from that of another.

/// A value the guest can't have seen before.
pub(crate) fn nonce() -> String {
    let mut bytes = [0; 8];
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    format!("{:016x}", u64::from_ne_bytes(bytes))
}
