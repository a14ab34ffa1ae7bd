"""`system.files.find_duplicates`: find the copies, report them, ask which may go, remove those."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Literal

from msgspec import Meta

from aios.adapter import BlockingContext, Context
from aios.builtin.files.beneath import Root, real_path
from aios.builtin.files.comparing import Comparison
from aios.builtin.files.findings import Choice
from aios.builtin.files.hashing import Meter
from aios.builtin.files.names import to_count, to_size, to_text
from aios.builtin.files.removal import Place, remove_copy
from aios.builtin.files.report import parts_of_removal
from aios.builtin.files.tool import files
from aios.builtin.files.walking import PATTERNS_MAX, Globs, Rules
from aios.model import JsonObject

QUESTION = "Which copies may go? What you choose is deleted for good; one of each stays."

_SEARCH_STEPS = 4
_REMOVE = 5
_SEARCH_SHARE = 0.9


@files.capability(
    "system.files.find_duplicates",
    name="Find duplicate files",
    permission="high",
    permission_id="aios.permission.filesystem.files.delete",
    scope="{root}",
    timeout_ms=24 * 3_600_000,
    category="files",
    examples=[{"root": "~/Documents"}, {"root": "~/Pictures", "include": ["*.jpg"], "remove": "never"}],
)
async def find_duplicates(
    ctx: Context,
    root: str,
    min_size: Annotated[int, Meta(ge=0)] = 1,
    include: Annotated[Sequence[str], Meta(max_length=PATTERNS_MAX)] = (),
    exclude: Annotated[Sequence[str], Meta(max_length=PATTERNS_MAX)] = (),
    follow_links: bool = False,
    cross_mounts: bool = False,
    remove: Literal["ask", "never"] = "ask",
) -> JsonObject:
    """Find files that hold the same in a folder, report them, and remove the copies that somebody chooses.

    Args:
        ctx: The task.
        root: The folder; `~` is the home folder of the daemon's user. Nothing outside it is looked at or removed.
        min_size: Files smaller than this many bytes are passed over; 0 takes empty files in.
        include: Only files whose name fits one of these patterns (`*.jpg`), or whose path does, if the pattern has a `/`.
        exclude: No files or folders that fit one of these.
        follow_links: Enter folders that a link leads to, if they are inside the folder.
        cross_mounts: Enter folders on other file systems.
        remove: `ask` puts a question which copies may go; `never` only reports.
    """
    is_asking = remove == "ask"

    async def search() -> JsonObject:
        rules = Rules(
            include=Globs(include),
            exclude=Globs(exclude),
            min_size=min_size,
            follow_links=follow_links,
            cross_mounts=cross_mounts,
        )
        with Root(real_path(root)) as opened:
            steps, share = (_REMOVE, _SEARCH_SHARE) if is_asking else (_SEARCH_STEPS, 1.0)
            return await Comparison(ctx, opened, rules, steps=steps, share=share).run()

    # All that is heavy happens inside this step: a run that waits for its answer, or comes back to it, holds little.
    found = await ctx.step("search", search)
    outcomes = await _ask_and_remove(ctx, found) if is_asking and found["choices"] else []
    removed = [outcome for outcome in outcomes if outcome["removed"]]
    freed = sum(outcome["freed_bytes"] for outcome in removed)
    totals = found["totals"]
    await ctx.progress(
        100,
        "no file is there twice"
        if not totals["groups"]
        else f"{to_count(totals['copies'], 'copy', 'copies')} more than needed, {to_size(totals['wasted_bytes'])}"
        + (f"; {to_count(len(removed), 'copy', 'copies')} removed, {to_size(freed)} freed" if outcomes else ""),
    )
    return {
        **totals,
        "offered": len(found["choices"]) if is_asking else 0,
        "chosen": len(outcomes),
        "removed": len(removed),
        "freed_bytes": freed,
        "report": found["report"],
    }


async def _ask_and_remove(ctx: Context, found: JsonObject) -> list[JsonObject]:
    place = Place(base64.b64decode(found["path"]), found["device"], found["inode"])
    chosen = await _ask(ctx, [Choice.from_json(choice) for choice in found["choices"]])
    outcomes = [
        await ctx.step("remove", _removal(ctx, place, choice, number, len(chosen)), key=f"remove {choice.id}")
        for number, choice in enumerate(chosen)
    ]
    if outcomes:
        await ctx.artifact("Removed copies", "report", parts_of_removal(to_text(place.path), outcomes))
    return outcomes


async def _ask(ctx: Context, choices: list[Choice]) -> list[Choice]:
    """Ask which copies may go. They are named by id or by path; a path that two of them show alike names neither."""
    shown = Counter(to_text(choice.path) for choice in choices)
    by_name = {choice.id: choice for choice in choices}
    by_name |= {to_text(choice.path): choice for choice in choices if shown[to_text(choice.path)] == 1}
    answer: list[str] = await ctx.ask(
        QUESTION,
        options=[choice.to_option() for choice in choices],
        schema={
            "type": "array",
            "title": "Copies to remove, by id or path; an empty list removes none",
            "items": {"enum": list(by_name)},
            "uniqueItems": True,
        },
    )
    return list({by_name[name].id: by_name[name] for name in answer}.values())


def _removal(
    ctx: Context, place: Place, choice: Choice, number: int, total: int
) -> Callable[[], Awaitable[JsonObject]]:
    percent = 100 * (_SEARCH_SHARE + (1 - _SEARCH_SHARE) * number / total)
    message = f"removing {number + 1} of {total}"

    async def remove() -> JsonObject:
        await ctx.progress(percent, message, _REMOVE, _REMOVE)

        def run(blocking: BlockingContext) -> JsonObject:
            meter = Meter()

            def passed(count: int) -> None:
                blocking.checkpoint()
                if meter.add(count):
                    compared = f"{to_size(meter.count)} of {to_size(choice.identity.size)} compared"
                    blocking.progress(percent, f"{message}: {compared}", _REMOVE, _REMOVE)

            return remove_copy(place, choice, passed=passed)

        return await ctx.in_thread(run)

    return remove
