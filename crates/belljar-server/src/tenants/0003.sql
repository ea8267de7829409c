-- Sessions that a service left for its next start. `snapshot` is a file of the directory `sessions`; without one, `why`
-- is the reason of the loss.
CREATE TABLE sessions (
    id       TEXT NOT NULL PRIMARY KEY,
    tenant   TEXT NOT NULL,
    record   TEXT NOT NULL,
    snapshot TEXT,
    why      TEXT
) STRICT, WITHOUT ROWID;

-- Keys of the requests that a service had executed when it stopped; `hash` is of the request.
CREATE TABLE request_keys (
    tenant TEXT NOT NULL,
    key    TEXT NOT NULL,
    hash   BLOB NOT NULL CHECK (length(hash) = 32)
) STRICT;

-- Seconds since 1970: when a key ends to be valid, and about when it was last used.
ALTER TABLE keys ADD COLUMN expires INTEGER;
ALTER TABLE keys ADD COLUMN used INTEGER;
