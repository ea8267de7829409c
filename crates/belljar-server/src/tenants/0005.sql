-- Titles and tags that people gave to runs; `tags` is a list in JSON.
CREATE TABLE run_labels (
    tenant TEXT NOT NULL,
    run    TEXT NOT NULL,
    title  TEXT,
    tags   TEXT NOT NULL,
    PRIMARY KEY (tenant, run)
) STRICT, WITHOUT ROWID;

-- Links that show a run, or one step of it, without a key; `hash` is SHA-256 of the secret.
CREATE TABLE run_shares (
    id      TEXT    NOT NULL PRIMARY KEY,
    tenant  TEXT    NOT NULL,
    run     TEXT    NOT NULL,
    step    INTEGER,
    hash    BLOB    NOT NULL CHECK (length(hash) = 32),
    created INTEGER NOT NULL,
    actor   TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX run_shares_by_run ON run_shares (tenant, run);
