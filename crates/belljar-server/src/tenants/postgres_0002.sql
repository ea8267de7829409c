-- Titles, tags and share links of runs: see `0005.sql`.
CREATE TABLE belljar.run_labels (
    tenant text COLLATE "C" NOT NULL,
    run    text COLLATE "C" NOT NULL,
    title  text,
    tags   text NOT NULL,
    PRIMARY KEY (tenant, run)
);

CREATE TABLE belljar.run_shares (
    id      text   COLLATE "C" NOT NULL PRIMARY KEY,
    tenant  text   COLLATE "C" NOT NULL,
    run     text   COLLATE "C" NOT NULL,
    step    bigint,
    hash    bytea  NOT NULL CHECK (length(hash) = 32),
    created bigint NOT NULL,
    actor   text   NOT NULL
);
CREATE INDEX run_shares_by_run ON belljar.run_shares (tenant, run);
