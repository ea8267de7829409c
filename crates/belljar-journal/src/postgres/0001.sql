-- A life is one start of a node. `beat` is updated several times a second: half of each page is left free, so that a new
-- version of a row stays on its page and no index changes.
CREATE TABLE belljar.lives (
    life    bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    node    text    NOT NULL,
    address text    NOT NULL,
    beat    bigint  NOT NULL DEFAULT 0,
    dead    boolean NOT NULL DEFAULT false,
    started timestamptz NOT NULL DEFAULT now(),
    died    timestamptz
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE INDEX lives_alive ON belljar.lives (life) WHERE NOT dead;
CREATE INDEX lives_dead ON belljar.lives (life) WHERE dead;

-- Numbers instead of names in `events`: its key stays small over millions of rows.
-- `epoch` rises whenever the writer changes, and with it each earlier writer is refused.
CREATE TABLE belljar.runs (
    number   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    last_seq bigint NOT NULL CHECK (last_seq >= 1),
    epoch    bigint NOT NULL DEFAULT 0 CHECK (epoch >= 0),
    life     bigint REFERENCES belljar.lives (life),
    turn     bigint NOT NULL DEFAULT 0,
    id       text   COLLATE "C" NOT NULL UNIQUE,
    tenant   text   COLLATE "C" NOT NULL,
    state    text   COLLATE "C" NOT NULL CHECK (state IN ('free', 'ready', 'driven', 'waits', 'stuck', 'ended')),
    CHECK ((state = 'driven') = (life IS NOT NULL))
) WITH (fillfactor = 70);

CREATE INDEX runs_ready ON belljar.runs (turn, number) WHERE state = 'ready';
CREATE INDEX runs_ready_of_tenant ON belljar.runs (tenant, turn) WHERE state = 'ready';
-- Also for the reference to `lives`, when a life is forgotten.
CREATE INDEX runs_of_life ON belljar.runs (life) WHERE life IS NOT NULL;

-- `at` is in microseconds since 1970; `body` is JSON as it was written. No reference to `runs`: the statement that
-- appends has found the run's row, and a reference would look for it once more for each event.
CREATE TABLE belljar.events (
    run     bigint  NOT NULL,
    seq     bigint  NOT NULL CHECK (seq >= 1),
    at      bigint  NOT NULL,
    version integer NOT NULL,
    kind    text    COLLATE "C" NOT NULL,
    body    text    COLLATE "C" NOT NULL,
    PRIMARY KEY (run, seq)
);

-- Not each server was built with it.
DO $$
BEGIN
    ALTER TABLE belljar.events ALTER COLUMN body SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported THEN
    NULL;
END
$$;
