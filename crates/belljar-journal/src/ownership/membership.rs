//! A node over its lives.

use std::sync::{Arc, Mutex, PoisonError};

use super::{Node, NodeOptions};
use crate::{Error, Journal};

/// A node that joins again whenever its life is over. Clones share everything.
#[derive(Clone, Debug)]
pub struct Membership(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    options: NodeOptions,
    current: Mutex<Node>,
}

impl Membership {
    /// Joins the cluster whose journal is in this database.
    pub async fn join(database: &str, options: NodeOptions) -> Result<Self, Error> {
        let current = Mutex::new(Node::join(database, options.clone()).await?);
        Ok(Self(Arc::new(Inner { options, current })))
    }

    /// The current life. It may be over.
    pub fn node(&self) -> Node {
        let current = self.0.current.lock();
        current.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The events of the runs of a tenant, in this life and later ones.
    pub fn journal_of(&self, tenant: &str) -> Journal {
        self.node().journal_of(tenant)
    }

    /// Begins another life.
    pub async fn join_again(&self) -> Result<Node, Error> {
        let node = self.node().join_again(self.0.options.clone()).await?;
        let mut current = self
            .0
            .current
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *current = node.clone();
        Ok(node)
    }
}
