-- Templates: what stands in braces is put together in `listing.py` from fixed texts; values are bound.

-- :narrowness
SELECT count(*) FROM (SELECT 1 FROM finished {index} WHERE {where} LIMIT {limit})

-- :count
SELECT count(*) FROM {source} {where}

-- :count_up_to
SELECT count(*) FROM (SELECT 1 FROM (SELECT * FROM finished LIMIT {rows}) AS part {where} LIMIT {limit})

-- :count_in_sample
WITH RECURSIVE block (first, number) AS (
    SELECT min(row), 1 FROM finished
    UNION ALL
    SELECT first + ((SELECT max(row) FROM finished) - (SELECT min(row) FROM finished)) / {blocks}, number + 1
    FROM block WHERE number < {blocks}
)
SELECT count(*), count(*) FILTER ({where})
FROM block CROSS JOIN finished AS part ON part.row >= block.first AND part.row < block.first + {rows}

-- :count_finished
SELECT coalesce(sum(value), 0) FROM counter

-- :page_of_part
SELECT * FROM (
    SELECT row, {sort} AS value, task_id FROM {source} {where} ORDER BY {sort} {way}, task_id {way} LIMIT {limit}
)

-- :page
{parts} ORDER BY value {way}, task_id {way} LIMIT {limit} OFFSET {offset}
