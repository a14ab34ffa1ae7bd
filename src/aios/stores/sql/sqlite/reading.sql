-- :task_by_id
SELECT t.row, t.task_id, t.spec, t.arguments, coalesce(u.state, f.state), f.result, coalesce(u.worker, h.worker),
    coalesce(u.stamp, f.stamp), u.awaits, u.is_keyed, u.has_secret
FROM task AS t LEFT JOIN unfinished AS u USING (row) LEFT JOIN finished AS f USING (row) LEFT JOIN held AS h USING (row)
WHERE t.task_id = ?

-- :task_by_row
SELECT t.row, t.task_id, t.spec, t.arguments, coalesce(u.state, f.state), f.result, coalesce(u.worker, h.worker),
    coalesce(u.stamp, f.stamp), u.awaits, u.is_keyed, u.has_secret
FROM task AS t LEFT JOIN unfinished AS u USING (row) LEFT JOIN finished AS f USING (row) LEFT JOIN held AS h USING (row)
WHERE t.row = ?

-- :task_summary
SELECT t.row, t.task_id, t.spec, x'7b7d', coalesce(u.state, f.state), NULL, coalesce(u.worker, h.worker),
    coalesce(u.stamp, f.stamp), u.awaits, u.is_keyed, u.has_secret
FROM task AS t LEFT JOIN unfinished AS u USING (row) LEFT JOIN finished AS f USING (row) LEFT JOIN held AS h USING (row)
WHERE t.row = ?

-- :children
SELECT row FROM unfinished WHERE parent_task_id = ? ORDER BY created_at, task_id

-- :parents
SELECT DISTINCT c.parent_task_id, p.row IS NULL
FROM unfinished AS c LEFT JOIN task AS t ON t.task_id = c.parent_task_id LEFT JOIN unfinished AS p ON p.row = t.row
WHERE c.parent_task_id IS NOT NULL

-- :foreground
SELECT row FROM unfinished WHERE session_id = ? AND NOT is_detached ORDER BY created_at, task_id

-- :lost
SELECT row FROM unfinished WHERE worker IS NOT NULL AND worker <> ?1
UNION ALL SELECT row FROM held WHERE worker <> ?1
ORDER BY row

-- :overdue
SELECT row FROM unfinished WHERE due_at <= ? ORDER BY due_at, row LIMIT ?

-- :next_overdue
SELECT min(due_at) FROM unfinished WHERE due_at IS NOT NULL

-- :recent_durations
SELECT updated_at - started_at FROM finished
WHERE capability_id = ? AND status = 'completed' AND started_at > 0 ORDER BY updated_at DESC LIMIT ?

-- :row_of
SELECT row FROM task WHERE task_id = ?

-- :last_cut
SELECT last_number FROM cut WHERE row = ?

-- :events
SELECT number, kind, at, data FROM event WHERE row = ? AND number > ? ORDER BY number LIMIT ?

-- :events_of_kinds
SELECT number, kind, at, data FROM event
WHERE row = ? AND number > ? AND kind IN (SELECT value FROM json_each(?)) ORDER BY number LIMIT ?

-- :steps
SELECT key, digest, value, is_secret, is_timeout FROM step WHERE row = (SELECT row FROM task WHERE task_id = ?)

-- :artifact
SELECT content FROM artifact WHERE artifact_id = ?

-- :artifact_owner
SELECT row FROM artifact WHERE artifact_id = ?

-- :artifacts
SELECT content FROM artifact WHERE row = (SELECT row FROM task WHERE task_id = ?) ORDER BY number

-- :session
SELECT content FROM session WHERE session_id = ?

-- :key
SELECT digest, row, expires_at FROM idempotency WHERE principal = ? AND key = ?

-- :unfinished_counts
SELECT status, count(*), count(worker) FROM unfinished GROUP BY status

-- :held_count
SELECT count(*) FROM held

-- :counters
SELECT name, value FROM counter

-- :last_row
SELECT coalesce(max(row), 0) FROM task

-- :queue
SELECT row, task_id, adapter_id, priority, created_at, status, worker, run_at FROM unfinished

-- :held
SELECT row, adapter_id, worker FROM held

-- :is_clean
SELECT value FROM meta WHERE name = 'is_clean'
