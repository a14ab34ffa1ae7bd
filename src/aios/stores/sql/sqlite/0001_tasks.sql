-- A task is one row in `task`, which never changes, and one in either `unfinished`, which moves, or `finished`, which is
-- written once. So claiming and counting stay as quick with ten million finished tasks as with none, and the indexes for
-- lists are written once in a task's life. Times are milliseconds since 1970, JSON is kept as bytes.

CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value ANY
) STRICT, WITHOUT ROWID;

INSERT INTO meta (name, value) VALUES ('is_clean', 1), ('probes', 0);

CREATE TABLE task (
    row INTEGER PRIMARY KEY,
    task_id TEXT NOT NULL UNIQUE,
    spec BLOB NOT NULL,
    arguments BLOB NOT NULL
) STRICT;

CREATE TABLE unfinished (
    row INTEGER PRIMARY KEY REFERENCES task (row) ON DELETE CASCADE,
    task_id TEXT NOT NULL,
    principal TEXT NOT NULL,
    capability_id TEXT NOT NULL,
    adapter_id TEXT NOT NULL,
    session_id TEXT,
    parent_task_id TEXT,
    is_detached INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    started_at INTEGER NOT NULL, -- 0: it never did.
    status TEXT NOT NULL,
    worker TEXT,
    run_at INTEGER,
    due_at INTEGER, -- The earliest of expiry, request and attempt deadline.
    awaits TEXT, -- The child whose end wakes the task.
    is_keyed INTEGER NOT NULL, -- It was created with an idempotency key.
    has_secret INTEGER NOT NULL, -- Some step of it holds a secret.
    stamp INTEGER NOT NULL,
    state BLOB NOT NULL
) STRICT;

CREATE INDEX unfinished_by_parent ON unfinished (parent_task_id) WHERE parent_task_id IS NOT NULL;
CREATE INDEX unfinished_by_session ON unfinished (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX unfinished_by_due ON unfinished (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE finished (
    row INTEGER PRIMARY KEY REFERENCES task (row) ON DELETE CASCADE,
    task_id TEXT NOT NULL,
    principal TEXT NOT NULL,
    capability_id TEXT NOT NULL,
    session_id TEXT,
    priority INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL, -- Its end: a finished task is not updated any more.
    started_at INTEGER NOT NULL, -- 0: it never did.
    status TEXT NOT NULL,
    stamp INTEGER NOT NULL,
    state BLOB NOT NULL,
    result BLOB
) STRICT;

-- One per order in which lists are walked. Few tasks share a millisecond, so ties there are sorted when they are met; many share
-- a priority or a status.
CREATE INDEX finished_by_created_at ON finished (created_at);
CREATE INDEX finished_by_updated_at ON finished (updated_at);
CREATE INDEX finished_by_started_at ON finished (started_at);
CREATE INDEX finished_by_priority ON finished (priority, task_id);
CREATE INDEX finished_by_status ON finished (status, task_id);

-- Narrow ways in, taken when few rows lie behind them.
CREATE INDEX finished_by_principal ON finished (principal);
CREATE INDEX finished_by_session ON finished (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX finished_by_capability ON finished (capability_id, status, updated_at, started_at);

-- Slots that finished tasks still hold because their code has not ended yet.
CREATE TABLE held (
    row INTEGER PRIMARY KEY REFERENCES task (row) ON DELETE CASCADE,
    adapter_id TEXT NOT NULL,
    worker TEXT NOT NULL
) STRICT;

CREATE TABLE tag (
    tag TEXT NOT NULL,
    row INTEGER NOT NULL REFERENCES task (row) ON DELETE CASCADE,
    PRIMARY KEY (tag, row)
) STRICT, WITHOUT ROWID;

CREATE INDEX tag_by_row ON tag (row);

CREATE TABLE event (
    row INTEGER NOT NULL REFERENCES task (row) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    at INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (row, number)
) STRICT, WITHOUT ROWID;

-- How much of an over-long log was cut away.
CREATE TABLE cut (
    row INTEGER PRIMARY KEY REFERENCES task (row) ON DELETE CASCADE,
    events INTEGER NOT NULL,
    last_number INTEGER NOT NULL,
    retry_at INTEGER NOT NULL -- The version before which looking again is no use.
) STRICT;

CREATE TABLE step (
    row INTEGER NOT NULL REFERENCES task (row) ON DELETE CASCADE,
    key TEXT NOT NULL,
    digest BLOB NOT NULL,
    value BLOB NOT NULL,
    is_secret INTEGER NOT NULL,
    is_timeout INTEGER NOT NULL,
    PRIMARY KEY (row, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE artifact (
    number INTEGER PRIMARY KEY,
    artifact_id TEXT NOT NULL UNIQUE,
    row INTEGER NOT NULL REFERENCES task (row) ON DELETE CASCADE,
    content BLOB NOT NULL
) STRICT;

CREATE INDEX artifact_by_row ON artifact (row);

CREATE TABLE artifact_blob (
    sha256 TEXT NOT NULL,
    artifact_id TEXT NOT NULL REFERENCES artifact (artifact_id) ON DELETE CASCADE,
    PRIMARY KEY (sha256, artifact_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX artifact_blob_by_artifact ON artifact_blob (artifact_id);

CREATE TABLE idempotency (
    principal TEXT NOT NULL,
    key TEXT NOT NULL,
    digest BLOB NOT NULL,
    row INTEGER NOT NULL REFERENCES task (row) ON DELETE CASCADE,
    expires_at INTEGER, -- Set when the task ends.
    PRIMARY KEY (principal, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX idempotency_by_row ON idempotency (row);
CREATE INDEX idempotency_by_expires_at ON idempotency (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE session (
    session_id TEXT PRIMARY KEY,
    expires_at INTEGER NOT NULL,
    content BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX session_by_expires_at ON session (expires_at);

-- How many finished tasks there are of each status; kept with every write, since counting ten million takes seconds.
CREATE TABLE counter (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
