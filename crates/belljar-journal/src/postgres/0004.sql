-- What each node has and has room for, written with its beats: null until it has reported. An operator marks a life as
-- draining.
ALTER TABLE belljar.lives
    ADD COLUMN draining boolean NOT NULL DEFAULT false,
    ADD COLUMN sessions bigint,
    ADD COLUMN session_limit bigint,
    ADD COLUMN free_memory bigint;
