"""The face in Python as the design shows it (design.md §9), taken at its word."""

from typing import Any

from aios import Adapter, Context, OAuth2
from aios.testing import run

shop = Adapter("com.example.shop", name="Shop tools", version="1.0.0")


async def search(site: str, query: str) -> str:
    return f"{query} at {site}"


@shop.capability(
    "compat.shop.compare",
    name="Compare prices",
    permission="medium",
    scope="{url}",
    timeout_ms=120_000,
    on_crash="rerun",
)
async def compare(ctx: Context, query: str, sites: list[str], url: str = "https://shop.example/") -> dict[str, Any]:
    """Compare the price of a product on several sites."""
    found = ""
    for number, site in enumerate(sites, 1):
        await ctx.progress(
            percent=100 * number / len(sites),
            message=f"searching {site}",
            current_step=number,
            total_steps=len(sites),
        )
        found = await ctx.step(f"search:{site}", search, site, query)
    choice = await ctx.ask("Which product?", options=["a", "b"], schema={"type": "string"}, timeout_ms=300_000)
    await ctx.artifact(
        name="Comparison",
        type="report",
        parts=[{"type": "text", "text": "…"}, {"type": "data", "data": {"found": found}}],
    )
    return {"cheapest": choice, "found": found}


@shop.capability("compat.shop.sign_in", name="Sign in")
async def sign_in(ctx: Context) -> dict[str, bool]:
    about = OAuth2(authorization_url="https://login.example/", provider="example", scopes=["read"])
    given = await ctx.authenticate(about, reason="to read")
    return {"signed_in": given["authorization_code"] == "code-1"}


async def test_the_example_runs_as_it_is_written() -> None:
    result = await run(compare, {"query": "ears", "sites": ["x", "y"]}, answers={"Which product?": "a"})
    assert result == {"cheapest": "a", "found": "ears at y"}


async def test_a_sign_in_is_described_by_a_record() -> None:
    assert await run(sign_in, answers={"oauth2": {"authorization_code": "code-1"}}) == {"signed_in": True}


def test_the_description_is_the_docstring() -> None:
    described = {capability.id: capability.description for capability in shop.capabilities()}
    assert described["compat.shop.compare"] == "Compare the price of a product on several sites."
