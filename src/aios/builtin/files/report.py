"""The reports of `system.files.find_duplicates`: what was found, and what was removed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from aios.builtin.files.chart import Panel, draw
from aios.builtin.files.findings import Findings
from aios.builtin.files.names import to_count, to_label, to_size
from aios.builtin.files.walking import Examples, Tally
from aios.model import JsonObject

ROWS_MAX = 20
"""Groups in the table that people read."""


def parts_of_search(totals: JsonObject, findings: Findings, notes: Sequence[str]) -> list[JsonObject]:
    """Give the parts of the first report: text, data, a chart and the complete table."""
    groups = findings.shown()
    table, is_cut = findings.table()
    data: JsonObject = {"totals": dict(totals), "groups": groups, "notes": list(notes)}
    if len(groups) < findings.groups:
        data["note"] = f"These are the {len(groups)} groups that waste most, of {findings.groups}; " + (
            "the table (text/csv) has more." if is_cut else "the table (text/csv) has all."
        )
    parts: list[JsonObject] = [
        {"type": "text", "text": _summary(totals, groups, notes)},
        {"type": "data", "data": data},
    ]
    if findings.groups:
        chart = draw(
            "Space taken by duplicate files",
            (
                Panel("By folder", list(findings.by_folder.items())),
                Panel("By file type", list(findings.by_type.items())),
            ),
        )
        parts += [
            {"type": "image", "image": {"mime_type": "image/svg+xml", "content": chart.encode("utf-8")}},
            {"type": "file", "file": {"mime_type": "text/csv", "content": table}},
        ]
    return parts


def notes_of_search(tally: Tally, findings: Findings, *, hard_links: int, changed: Examples) -> list[str]:
    """Say in sentences what a reader of the numbers must know besides."""
    return [
        *_examples(tally.unreadable, "could not be read", "could not be read"),
        *_examples(tally.vanished, "vanished during the search", "vanished during the search"),
        *_examples(
            changed, "changed during the search and was left out", "changed during the search and were left out"
        ),
        *_examples(
            tally.mounts, "is another file system and was not entered", "are other file systems and were not entered"
        ),
        *_examples(
            tally.outside,
            "is a link out of the root and was not followed",
            "are links out of the root and were not followed",
        ),
        *_some(
            hard_links,
            "name is a hard link to a file counted already and takes no space",
            "names are hard links to files counted already and take no space",
        ),
        *_some(
            findings.linked_copies,
            "copy has further names (hard links) and is not offered for removal, which would free nothing",
            "copies have further names (hard links) and are not offered for removal, which would free nothing",
        ),
        *_more_choices(findings),
        *_some(tally.special, "device, socket or pipe was passed over", "devices, sockets and pipes were passed over"),
    ]


def parts_of_removal(shown_root: str, outcomes: Sequence[JsonObject]) -> list[JsonObject]:
    """Give the parts of the second report: what was removed, what was not and why."""
    removed = [outcome for outcome in outcomes if outcome["removed"]]
    freed = sum(outcome["freed_bytes"] for outcome in removed)
    lines = [
        f"# {to_count(len(removed), 'copy', 'copies')} removed, {to_size(freed)} freed",
        "",
        f"Folder: {_cell(shown_root, 200)}",
        "",
        "| copy | size | what became of it |",
        "|---|---:|---|",
    ]
    lines += [
        f"| {_cell(outcome['path'])} | {to_size(outcome['size'])} | "
        f"{'removed' if outcome['removed'] else 'kept: ' + _plain(outcome['reason'])} |"
        for outcome in outcomes
    ]
    data = {
        "root": shown_root,
        "removed": len(removed),
        "kept": len(outcomes) - len(removed),
        "freed_bytes": freed,
        "outcomes": list(outcomes),
    }
    return [{"type": "text", "text": "\n".join(lines) + "\n"}, {"type": "data", "data": data}]


def _summary(totals: JsonObject, groups: Sequence[JsonObject], notes: Sequence[str]) -> str:
    lines = [
        f"# Duplicate files in {_cell(totals['root'], 200)}",
        "",
        "| | |",
        "|---|---:|",
        f"| files looked at | {totals['files']:,} ({to_size(totals['bytes'])}) |",
        f"| groups of identical files | {totals['groups']:,} |",
        f"| copies more than needed | {totals['copies']:,} |",
        f"| space they take | **{to_size(totals['wasted_bytes'])}** |",
    ]
    if groups:
        lines += [
            "",
            "## What wastes most",
            "",
            "| wasted | files | each | the first of them |",
            "|---:|---:|---:|---|",
        ]
        lines += list(_rows(groups[:ROWS_MAX]))
    if notes:
        lines += ["", "## Notes", "", *(f"- {note}" for note in notes)]
    return "\n".join(lines) + "\n"


def _rows(groups: Sequence[JsonObject]) -> Iterator[str]:
    for group in groups:
        yield (
            f"| {to_size(group['wasted_bytes'])} | {group['copies']:,} | {to_size(group['size'])} "
            f"| {_cell(group['paths'][0])} |"
        )


def _cell(text: str, width: int = 100) -> str:
    """Give text for a table in Markdown: as code, so that nothing in a name is taken for markup."""
    label = to_label(text, width).replace("|", "\\|").replace("`", "ˋ")
    return f"`{label}`"


def _plain(text: str) -> str:
    """Give a sentence for a table in Markdown, in which a name may stand."""
    return re.sub(r"[\\`*_{}\[\]<>|#]", r"\\\g<0>", to_label(text, 300))


def _examples(examples: Examples, one: str, many: str) -> Iterator[str]:
    if examples.count == 1:
        yield f"{_cell(examples.paths[0])} {one}."
    elif examples.count:
        yield f"{examples.count:,} files or folders {many}, first {_cell(examples.paths[0])}."


def _some(count: int, one: str, many: str) -> Iterator[str]:
    if count:
        yield f"{to_count(count, one, many)}."


def _more_choices(findings: Findings) -> Iterator[str]:
    if findings.are_more_choices:
        yield f"Only the {len(findings.choices)} biggest copies are offered for removal; run it again for more."
