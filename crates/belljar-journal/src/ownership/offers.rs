//! Which nodes take new sessions.

use std::time::Instant;

use sqlx::Row;
use sqlx::postgres::PgRow;

use super::Node;
use super::load::NodeLoad;
use super::single::{NodePlace, place};
use crate::Error;
use crate::postgres::unsigned;

/// Nodes that take new sessions. Without this one: it knows itself better.
const OFFERS: &str = "SELECT life, node, address, sessions, session_limit, free_memory FROM belljar.lives \
    WHERE NOT dead AND NOT draining AND life <> $1 AND session_limit IS NOT NULL ORDER BY life";

/// A node that takes new sessions, as it reported with one of its last beats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeOffer {
    /// The node.
    pub place: NodePlace,
    /// What it has.
    pub load: NodeLoad,
}

impl Node {
    /// Reports with each beat from now on what this node has.
    pub fn report(&self, load: NodeLoad) {
        self.0.standing().load = Some(load);
    }

    /// Whether an operator wants this node empty, as far as it knows: it learns so with its next beat.
    pub fn is_draining(&self) -> bool {
        self.0.standing().is_draining
    }

    /// Notes that another life could not be connected to: it is not among the offers until it has beaten again.
    pub fn note_unreached(&self, life: i64) {
        self.0.watch().note_unreached(life, Instant::now());
    }

    /// How many other nodes have beaten not long ago, as far as this one has seen.
    pub fn beating_others(&self) -> usize {
        self.0.watch().beating(Instant::now())
    }

    /// The other nodes that have reported, are not draining, have beaten not long ago, and can be connected to as far as
    /// this one knows.
    pub async fn offers(&self) -> Result<Vec<NodeOffer>, Error> {
        let rows = self.0.fetch(sqlx::query(OFFERS).bind(self.life())).await;
        let read = |row: &PgRow| {
            Ok(NodeOffer {
                place: place(row, 0)?,
                load: NodeLoad {
                    sessions: unsigned(row.try_get(3)?),
                    session_limit: unsigned(row.try_get(4)?),
                    free_memory: unsigned(row.try_get(5)?),
                },
            })
        };
        let offers: sqlx::Result<Vec<_>> = rows.and_then(|rows| rows.iter().map(read).collect());
        let mut offers = offers.map_err(|error| self.0.postgres.fault(error))?;
        let now = Instant::now();
        let watch = self.0.watch();
        offers.retain(|offer| watch.is_available(offer.place.life, now));
        drop(watch);
        Ok(offers)
    }
}
