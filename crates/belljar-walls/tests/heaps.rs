//! Memory that the host frees goes back to the machine, whatever clients made it hold.

/// Kilobytes of this process that are in memory.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn filled(bytes: usize) -> Vec<u8> {
    std::hint::black_box(vec![1; bytes])
}

/// Large blocks that were freed between small ones that are still in use, as after a flood of large requests.
#[test]
fn large_blocks_go_back_to_the_host() {
    belljar_walls::limit_heaps();
    // Once such a block is freed, the default is to put all smaller ones into the heap.
    drop(filled(30 << 20));
    let before = resident().unwrap();
    for (count, bytes) in [(40, 8 << 20), (800, 400_000)] {
        let blocks = (0..count).map(|_| (filled(bytes), filled(64)));
        let (large, small): (Vec<_>, Vec<_>) = blocks.unzip();
        assert!(resident().unwrap() > before + (300 << 10));
        drop(large);
        let after = resident().unwrap();
        assert!(
            after < before + (16 << 10),
            "{before} kB grew to {after} kB"
        );
        drop(small);
    }
}
