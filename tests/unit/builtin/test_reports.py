import csv
import io
from xml.etree import ElementTree as ET

import msgspec

from aios.builtin.files.beneath import Identity
from aios.builtin.files.chart import BARS_MAX, Panel, draw
from aios.builtin.files.findings import DATA_BYTES_MAX, OPTIONS_MAX, Choice, Findings
from aios.builtin.files.grouping import Copy, Group
from aios.builtin.files.listing import ROOT, Listing
from aios.builtin.files.report import notes_of_search, parts_of_removal, parts_of_search
from aios.builtin.files.walking import Examples, Tally
from aios.model import JsonObject, Limits

EVENT_BYTES_MAX = 256 * 1024
NAUGHTY = '<script>alert("1")</script> & | ` \n\u202e\x1b[31m 🎉.TXT'


def findings_of(groups: int, copies: int, *, name: str = "file", size: int = 1000) -> Findings:
    listing = Listing()
    findings = Findings(listing)
    for number in range(groups):
        folder = listing.add_folder(ROOT, b"folder-%d" % number)
        members: list[Copy] = []
        for copy in range(copies):
            inode = len(listing) + 1
            found = Identity(device=1, inode=inode, size=size, mtime_ns=0, ctime_ns=0)
            listing.add(folder, f"{copy}-{name}".encode(), found, links=1)
            members.append(Copy([len(listing) - 1]))
        findings.add(Group(size, b"d" * 32, members))
    return findings


def totals_of(findings: Findings) -> JsonObject:
    return {
        "root": "/somewhere",
        "files": 10,
        "bytes": 20,
        "groups": findings.groups,
        "copies": findings.copies,
        "wasted_bytes": findings.wasted_bytes,
    }


def parts_of(findings: Findings) -> dict[str, JsonObject]:
    return {part["type"]: part for part in parts_of_search(totals_of(findings), findings, [])}


def test_a_chart_is_a_picture_whatever_the_names_are() -> None:
    drawn = draw("Space", [Panel("By folder", [(NAUGHTY, 10), ("b", 0)]), Panel("By type", [])])
    tree = ET.fromstring(drawn)
    assert tree.tag == "{http://www.w3.org/2000/svg}svg"
    texts = [element.text or "" for element in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert any(text.startswith("<script>") for text in texts)
    assert "<script" not in drawn
    # Under `default-src 'none'` a style sheet or a style attribute would have no effect.
    assert "style" not in drawn


def test_a_chart_puts_what_is_small_into_one_bar() -> None:
    drawn = draw("Space", [Panel("By folder", [(f"folder-{number}", 1000 + number) for number in range(50)])])
    rows = [element for element in ET.fromstring(drawn) if element.get("rx")]
    assert len(rows) == BARS_MAX + 1
    assert ">other<" in drawn


def test_a_report_has_text_data_chart_and_table() -> None:
    parts = parts_of(findings_of(2, 3))
    assert "| copies more than needed | 4 |" in parts["text"]["text"]
    assert parts["data"]["data"]["groups"][0] == {
        "size": 1000,
        "hash": "sha256:" + "64" * 32,
        "copies": 3,
        "wasted_bytes": 2000,
        "paths": [f"folder-0/{number}-file" for number in range(3)],
    }
    assert parts["image"]["image"]["mime_type"] == "image/svg+xml"
    rows = list(csv.DictReader(io.StringIO(parts["file"]["file"]["content"].decode())))
    assert [row["role"] for row in rows] == ["kept", "copy", "copy"] * 2


def test_a_report_of_nothing_has_no_chart() -> None:
    assert set(parts_of(findings_of(0, 0))) == {"text", "data"}


def test_a_report_of_very_much_fits_an_event_and_says_what_it_leaves_out() -> None:
    findings = findings_of(3000, 60, name="n" * 200)
    parts = parts_of(findings)
    data = parts["data"]["data"]
    assert len(msgspec.json.encode([parts["text"], parts["data"]])) < EVENT_BYTES_MAX / 2
    assert DATA_BYTES_MAX / 2 < len(msgspec.json.encode(data["groups"])) <= DATA_BYTES_MAX + 1000
    # Larger, it would reach an agent as a file to fetch, not as data.
    assert len(msgspec.json.encode(data)) < Limits().max_inline_size - 8 * 1024
    assert data["groups"][0]["paths_total"] == 60
    assert "of 3000" in data["note"]


def test_options_are_bounded_in_number_and_size() -> None:
    few = findings_of(1, OPTIONS_MAX * 2)
    assert len(few.choices) == OPTIONS_MAX
    assert few.are_more_choices
    # Names of which each byte is written as four.
    long = findings_of(OPTIONS_MAX, 2, name="\x01" * 240)
    assert len(msgspec.json.encode([choice.to_option() for choice in long.choices])) < EVENT_BYTES_MAX / 2
    assert long.are_more_choices
    assert any("biggest copies are offered" in note for note in notes(long))


def notes(findings: Findings, tally: Tally | None = None, hard_links: int = 0) -> list[str]:
    return notes_of_search(tally or Tally(), findings, hard_links=hard_links, changed=Examples())


def test_notes_say_what_was_not_looked_at() -> None:
    tally = Tally(special=2)
    tally.unreadable.add(b"locked`|")
    tally.mounts.add(b"a")
    tally.mounts.add(b"b")
    assert notes(findings_of(0, 0), tally, hard_links=1) == [
        "`lockedˋ\\|` could not be read.",
        "2 files or folders are other file systems and were not entered, first `a`.",
        "1 name is a hard link to a file counted already and takes no space.",
        "2 devices, sockets and pipes were passed over.",
    ]


def test_a_choice_keeps_its_bytes_through_json() -> None:
    choice = Choice(
        id="copy-1",
        path=b"caf\xe9/\n",
        identity=Identity(1, 2, 3, 4, 5),
        keeps=b"\xff",
        kept_identity=Identity(6, 7, 8, 9, 10),
    )
    assert Choice.from_json(msgspec.json.decode(msgspec.json.encode(choice.to_json()))) == choice
    assert choice.to_option()["path"] == "caf\\xe9/\n"


def test_the_second_report_says_of_each_copy_what_became_of_it() -> None:
    text, data = parts_of_removal(
        "/somewhere",
        [
            {"id": "copy-1", "path": "a|b", "size": 2000, "removed": True, "freed_bytes": 2000},
            {"id": "copy-2", "path": "c", "size": 5, "removed": False, "freed_bytes": 0, "reason": "it has changed"},
        ],
    )
    assert text["text"].startswith("# 1 copy removed, 2.0 kB freed")
    assert "| `a\\|b` | 2.0 kB | removed |" in text["text"]
    assert "| `c` | 5 bytes | kept: it has changed |" in text["text"]
    assert data["data"]["freed_bytes"] == 2000
