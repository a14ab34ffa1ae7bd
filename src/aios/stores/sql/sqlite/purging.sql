-- :purgeable
SELECT f.row, (SELECT count(*) FROM event AS e WHERE e.row = f.row) FROM finished AS f
WHERE f.updated_at < ? AND NOT EXISTS (SELECT 1 FROM held AS h WHERE h.row = f.row) ORDER BY f.updated_at LIMIT ?

-- :purge_statuses
SELECT status, count(*) FROM finished WHERE row IN (SELECT value FROM json_each(?)) GROUP BY status

-- :purge_blobs
SELECT DISTINCT b.sha256 FROM artifact AS a JOIN artifact_blob AS b USING (artifact_id)
WHERE a.row IN (SELECT value FROM json_each(?))

-- :purge_tasks
DELETE FROM task WHERE row IN (SELECT value FROM json_each(?))

-- :purge_keys
DELETE FROM idempotency WHERE (principal, key) IN (
    SELECT principal, key FROM idempotency WHERE expires_at < ? LIMIT ?
)

-- :purge_sessions
DELETE FROM session WHERE session_id IN (SELECT session_id FROM session WHERE expires_at < ? LIMIT ?)

-- :known_blobs
SELECT DISTINCT sha256 FROM artifact_blob WHERE sha256 IN (SELECT value FROM json_each(?))
