-- Numbers instead of names in `events`: its key stays small over millions of rows.
CREATE TABLE runs (
    number   INTEGER PRIMARY KEY,
    id       TEXT    NOT NULL UNIQUE,
    last_seq INTEGER NOT NULL CHECK (last_seq >= 1)
) STRICT;

-- `at` is in microseconds since 1970; `body` is JSON as it was written.
CREATE TABLE events (
    run     INTEGER NOT NULL REFERENCES runs (number),
    seq     INTEGER NOT NULL CHECK (seq >= 1),
    at      INTEGER NOT NULL,
    kind    TEXT    NOT NULL,
    version INTEGER NOT NULL,
    body    TEXT    NOT NULL,
    PRIMARY KEY (run, seq)
) STRICT;
