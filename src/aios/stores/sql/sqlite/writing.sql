-- :insert_task
INSERT INTO task (row, task_id, spec, arguments) VALUES (?, ?, ?, ?)

-- :put_unfinished
INSERT INTO unfinished (
    row, task_id, principal, capability_id, adapter_id, session_id, parent_task_id, is_detached, priority, created_at,
    updated_at, started_at, status, worker, run_at, due_at, awaits, is_keyed, has_secret, stamp, state
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (row) DO UPDATE SET
    updated_at = excluded.updated_at,
    started_at = excluded.started_at,
    status = excluded.status,
    worker = excluded.worker,
    run_at = excluded.run_at,
    due_at = excluded.due_at,
    awaits = excluded.awaits,
    has_secret = excluded.has_secret,
    stamp = excluded.stamp,
    state = excluded.state

-- :delete_unfinished
DELETE FROM unfinished WHERE row IN (?)

-- :put_finished
INSERT OR REPLACE INTO finished (
    row, task_id, principal, capability_id, session_id, priority, created_at, updated_at, started_at, status, stamp,
    state, result
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- :put_held
INSERT OR REPLACE INTO held (row, adapter_id, worker) VALUES (?, ?, ?)

-- :delete_held
DELETE FROM held WHERE row IN (?)

-- :insert_tag
INSERT OR IGNORE INTO tag (tag, row) VALUES (?, ?)

-- :insert_event
INSERT INTO event (row, number, kind, at, data) VALUES (?, ?, ?, ?, ?)

-- :insert_step
INSERT OR IGNORE INTO step (row, key, digest, value, is_secret, is_timeout) VALUES (?, ?, ?, ?, ?, ?)

-- :erase_secrets
DELETE FROM step WHERE is_secret AND row IN (?)

-- :put_artifact
INSERT INTO artifact (artifact_id, row, content) VALUES (?, ?, ?)
ON CONFLICT (artifact_id) DO UPDATE SET content = excluded.content

-- :clear_artifact_blobs
DELETE FROM artifact_blob WHERE artifact_id IN (?)

-- :insert_artifact_blob
INSERT OR IGNORE INTO artifact_blob (sha256, artifact_id) VALUES (?, ?)

-- :put_key
INSERT OR REPLACE INTO idempotency (principal, key, digest, row) VALUES (?, ?, ?, ?)

-- :expire_key
UPDATE idempotency SET expires_at = ? WHERE row = ?

-- :put_session
INSERT OR REPLACE INTO session (session_id, expires_at, content) VALUES (?, ?, ?)

-- :put_counter
INSERT OR REPLACE INTO counter (name, value) VALUES (?, ?)

-- :put_cut
INSERT OR REPLACE INTO cut (row, events, last_number, retry_at) VALUES (?, ?, ?, ?)

-- :cut_of
SELECT events, last_number, retry_at FROM cut WHERE row = ?

-- :cut_numbers
SELECT number FROM event WHERE row = ? AND kind IN (2, 6, 7) ORDER BY number LIMIT ?

-- :cut_events
DELETE FROM event WHERE row = ? AND kind IN (2, 6, 7) AND number <= ?

-- :set_clean
UPDATE meta SET value = ? WHERE name = 'is_clean'

-- :probe
UPDATE meta SET value = value + 1 WHERE name = 'probes'
