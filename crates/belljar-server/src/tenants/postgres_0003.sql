
-- The node that carries out a request with an `Idempotency-Key`, for what no id leads to a node: it has the answer. The empty
-- name is that of a node that has stopped.
CREATE TABLE belljar.key_nodes (
    tenant text   COLLATE "C" NOT NULL,
    key    text   COLLATE "C" NOT NULL,
    node   text   COLLATE "C" NOT NULL,
    at     bigint NOT NULL,
    PRIMARY KEY (tenant, key)
);
CREATE INDEX key_nodes_by_age ON belljar.key_nodes (at);
CREATE INDEX key_nodes_by_node ON belljar.key_nodes (node);
