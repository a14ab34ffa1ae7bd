"""Counts words. Try it: `aios serve --adapter my_tools.py`, then `aios run compat.words.count folder=~/texts`."""

from pathlib import Path

from aios import Adapter, BlockingContext

tools = Adapter("org.example.words", name="Words")


def _count(path: str) -> int:
    return len(Path(path).read_text(encoding="utf-8", errors="replace").split())


@tools.capability("compat.words.count", name="Count words")
def count_words(ctx: BlockingContext, folder: str, pattern: str = "*.txt") -> dict[str, int]:
    """Count the words in the texts of a folder."""
    words = dict.fromkeys(sorted(str(path) for path in Path(folder).expanduser().glob(pattern)), 0)
    for number, path in enumerate(words, 1):
        ctx.progress(100 * number / len(words), f"reading {Path(path).name}", number, len(words))
        words[path] = ctx.step("count", _count, path)
    if ctx.ask("Make a report?", options=["yes", "no"]) == "yes":
        rows = "\n".join(f"| {Path(path).name} | {count} |" for path, count in words.items())
        ctx.artifact("Word counts", "report", [{"type": "text", "text": f"| text | words |\n|---|---:|\n{rows}"}])
    return {"texts": len(words), "words": sum(words.values())}
