//! Which node takes a new session. A pure function of what the nodes report.

use belljar_journal::{NodeLoad, NodeOffer, NodePlace};

/// Where a session goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement<'a> {
    /// To the node that was asked.
    Here,
    Other(&'a NodePlace),
    /// No node has room.
    Nowhere,
}

/// Places a session that needs so much memory at first. The node that was asked takes it if it has room: clients come by
/// way of a load balancer, and no hop is cheaper. Else it is the node with most room. A node that takes no sessions has
/// no load.
pub(crate) fn place(here: Option<NodeLoad>, others: &[NodeOffer], memory: u64) -> Placement<'_> {
    if here.is_some_and(|load| room(load, memory) > 0) {
        return Placement::Here;
    }
    let most = others
        .iter()
        .max_by_key(|offer| room(offer.load, memory))
        .filter(|offer| room(offer.load, memory) > 0);
    most.map_or(Placement::Nowhere, |offer| Placement::Other(&offer.place))
}

/// How many more sessions a node can take that need so much memory at first.
fn room(load: NodeLoad, memory: u64) -> u64 {
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
            here in prop::option::of(load()), others in offers(), memory in 0..4_u64,
        ) {
            let fits = |load: &NodeLoad| load.sessions < load.session_limit && load.free_memory >= memory.max(1);
            match place(here, &others, memory) {
                Placement::Here => prop_assert!(here.as_ref().is_some_and(fits)),
                Placement::Other(place) => {
                    prop_assert!(!here.as_ref().is_some_and(fits));
                    let chosen = others.iter().find(|offer| offer.place == *place).unwrap();
                    prop_assert!(fits(&chosen.load));
                    for other in &others {
                        prop_assert!(room(other.load, memory) <= room(chosen.load, memory));
                    }
                }
                Placement::Nowhere => {
                    prop_assert!(!here.as_ref().is_some_and(fits));
                    prop_assert!(!others.iter().any(|offer| fits(&offer.load)));
                }
            }
        }
    }

    /// Sessions that are placed one after another fill all nodes evenly, and each of them to its limit.
    #[test]
    fn nodes_fill_evenly() {
        let with = |life: i64, session_limit: u64| NodeOffer {
            place: NodePlace {
                life,
                name: format!("{life:08x}"),
                address: String::new(),
            },
            load: NodeLoad {
                sessions: 0,
                session_limit,
                free_memory: 40,
            },
        };
        let mut nodes = [with(1, 5), with(2, 5), with(3, 100)];
        // The last one has memory for four sessions of this size.
        let mut order = Vec::new();
        while let Placement::Other(place) = place(None, &nodes, 10) {
            let life = place.life;
            order.push(life);
            let node = nodes.iter_mut().find(|node| node.place.life == life);
            let load = &mut node.unwrap().load;
            load.sessions += 1;
            load.free_memory -= 10;
        }
        for (life, count) in [(1, 4), (2, 4), (3, 4)] {
            assert_eq!(order.iter().filter(|one| **one == life).count(), count);
        }
        for three in order.chunks(3) {
            let mut three = three.to_vec();
            three.sort_unstable();
            assert_eq!(three, [1, 2, 3]);
        }
    }
}
