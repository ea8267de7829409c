//! Which cell of the fleet has a tenant: rendezvous hashing. Each tenant goes to the cell with the highest hash of both
//! names, so a router needs nothing but the list of cells, and a new cell takes tenants from all others evenly.

use sha2::{Digest as _, Sha256};

/// The place of the tenant's cell in this list, which must not be empty.
pub(crate) fn cell_of(tenant: &str, cells: &[String]) -> usize {
    let weight = |cell: &String| {
        // A name has no line feed.
        let digest = Sha256::digest(format!("{cell}\n{tenant}"));
        <[u8; 32]>::from(digest)
    };
    let numbered = cells.iter().enumerate();
    let best = numbered.max_by_key(|(_, cell)| weight(cell));
    best.map_or(0, |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(count: usize) -> Vec<String> {
        (0..count).map(|cell| format!("cell-{cell}")).collect()
    }

    fn placed(count: usize) -> Vec<usize> {
        let cells = cells(count);
        let tenants = (0..20_000).map(|tenant| format!("tenant-{tenant}"));
        tenants.map(|tenant| cell_of(&tenant, &cells)).collect()
    }

    /// 20,000 tenants in ten cells: 2,000 in each, give or take 7 %.
    #[test]
    fn cells_have_as_many_tenants() {
        let mut counts = [0; 10];
        for cell in placed(10) {
            counts[cell] += 1;
        }
        for count in counts {
            assert!((1860..=2140).contains(&count), "{counts:?}");
        }
    }

    /// An eleventh cell takes an eleventh of all tenants, and no other tenant moves.
    #[test]
    fn a_new_cell_moves_few_tenants() {
        let (before, after) = (placed(10), placed(11));
        let moved: Vec<_> = before.iter().zip(&after).filter(|(a, b)| a != b).collect();
        assert!(moved.iter().all(|(_, now)| **now == 10));
        let share = moved.len() * 11;
        assert!((18_500..=21_500).contains(&share), "{}", moved.len());
    }

    #[test]
    fn the_order_of_cells_does_not_matter() {
        let (forward, mut backward) = (cells(7), cells(7));
        backward.reverse();
        for tenant in ["a", "b", "data-team", "zz"] {
            let cell = &forward[cell_of(tenant, &forward)];
            assert_eq!(&backward[cell_of(tenant, &backward)], cell);
        }
    }
}
