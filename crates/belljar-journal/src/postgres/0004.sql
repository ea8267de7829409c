-- What each node has and has room for, written with its beats: null until it has reported. An operator marks a life as
-- draining.
ALTER TABLE belljar.lives
    ADD COLUMN draining boolean NOT NULL DEFAULT false,
    ADD COLUMN sessions bigint,
    ADD COLUMN session_limit bigint,
    ADD COLUMN free_memory bigint;

-- Sessions that have left the node that their ids name. `node` has one now; without it, any node may take it.
CREATE TABLE belljar.moved_sessions (
    id       text COLLATE "C" PRIMARY KEY,
    tenant   text COLLATE "C" NOT NULL,
    record   text NOT NULL,
    snapshot text NOT NULL,
    node     text COLLATE "C"
);

CREATE INDEX moved_sessions_free ON belljar.moved_sessions (id) WHERE node IS NULL;
