//! Which node takes a new session. A pure function of what the nodes report.

use belljar_journal::{NodeLoad, NodeOffer, NodePlace};

/// The weight of a node without limits.
const MOST_WEIGHT: u64 = 1 << 32;

/// Where a session goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement<'a> {
    /// To the node that was asked.
    Here,
    /// To another one.
    Other(&'a NodePlace),
    /// No node has room.
    Nowhere,
}

/// Places a session that needs so much memory at first. The node that was asked takes it if it has room: clients come by
/// way of a load balancer, and no hop is cheaper. A node that takes no sessions has no load.
///
/// Else `chance`, a random number, chooses one of the others, by their room: one with twice the room gets twice as many.
/// What they have reported is up to a second old. If each took the one with most room, all that are full would fill the
/// same one within that second, and it would refuse most of what it is given.
pub fn place(
    here: Option<NodeLoad>,
    others: &[NodeOffer],
    memory: u64,
    chance: u64,
) -> Placement<'_> {
    if here.is_some_and(|load| room(load, memory) > 0) {
        return Placement::Here;
    }
    let weight = |offer: &NodeOffer| u128::from(room(offer.load, memory).min(MOST_WEIGHT));
    let all: u128 = others.iter().map(weight).sum();
    // Below the sum of all weights.
    let mut ticket = (all * u128::from(chance)) >> u64::BITS;
    for offer in others {
        let weight = weight(offer);
        if ticket < weight {
            return Placement::Other(&offer.place);
        }
        ticket -= weight;
    }
    Placement::Nowhere
}

/// How many more sessions a node can take that need so much memory at first.
pub(crate) fn room(load: NodeLoad, memory: u64) -> u64 {
    let sessions = load.session_limit.saturating_sub(load.sessions);
    sessions.min(load.free_memory / memory.max(1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn load() -> impl Strategy<Value = NodeLoad> {
        let number = || prop_oneof![0..4_u64, Just(u64::MAX)];
        (number(), number(), number()).prop_map(|(sessions, session_limit, free_memory)| NodeLoad {
            sessions,
            session_limit,
            free_memory,
        })
    }

    fn offers() -> impl Strategy<Value = Vec<NodeOffer>> {
        let offers = prop::collection::vec(load(), 0..6);
        offers.prop_map(|loads| {
            let numbered = loads.into_iter().zip(1..);
            let offer = |(load, life): (NodeLoad, i64)| NodeOffer {
                place: NodePlace {
                    life,
                    name: format!("{life:08x}"),
                    address: format!("http://node-{life}"),
                },
                load,
            };
            numbered.map(offer).collect()
        })
    }

    proptest! {
        #[test]
        fn a_session_goes_where_there_is_room(
            here in prop::option::of(load()), others in offers(), memory in 0..4_u64, chance in any::<u64>(),
        ) {
            let fits = |load: &NodeLoad| load.sessions < load.session_limit && load.free_memory >= memory.max(1);
            match place(here, &others, memory, chance) {
                Placement::Here => prop_assert!(here.as_ref().is_some_and(fits)),
                Placement::Other(place) => {
                    prop_assert!(!here.as_ref().is_some_and(fits));
                    let chosen = others.iter().find(|offer| offer.place == *place).unwrap();
                    prop_assert!(fits(&chosen.load));
                }
                Placement::Nowhere => {
                    prop_assert!(!here.as_ref().is_some_and(fits));
                    prop_assert!(!others.iter().any(|offer| fits(&offer.load)));
                }
            }
        }
    }

    fn with(life: i64, session_limit: u64, free_memory: u64) -> NodeOffer {
        NodeOffer {
            place: NodePlace {
                life,
                name: format!("{life:08x}"),
                address: String::new(),
            },
            load: NodeLoad {
                sessions: 0,
                session_limit,
                free_memory,
            },
        }
    }

    /// Evenly spread chances give each node its part of the room, and so do all that choose from the same report.
    #[test]
    fn each_node_gets_its_part_of_the_room() {
        // The last one has memory for four sessions of this size.
        let nodes = [
            with(1, 5, 1000),
            with(2, 0, 1000),
            with(3, 1, 1000),
            with(4, 100, 49),
        ];
        let mut got = [0; 5];
        for number in 0..1000_u64 {
            let chance = u64::MAX / 1000 * number + u64::MAX / 2000;
            match place(None, &nodes, 10, chance) {
                Placement::Other(place) => got[usize::try_from(place.life).unwrap()] += 1,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(got, [0, 500, 0, 100, 400]);
    }

    /// Sessions that are placed one after another fill each node to its limit.
    #[test]
    fn nodes_fill_to_their_limits() {
        let mut nodes = [with(1, 5, 40), with(2, 5, 1000), with(3, 100, 40)];
        let mut placed = [0; 4];
        let mut chance = 1_u64;
        while let Placement::Other(place) = place(None, &nodes, 10, chance) {
            let node = usize::try_from(place.life).unwrap();
            placed[node] += 1;
            let load = &mut nodes[node - 1].load;
            load.sessions += 1;
            load.free_memory -= 10;
            chance = chance
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
        }
        assert_eq!(placed, [0, 4, 5, 4]);
    }
}
