"""`aios.testing.run`: a capability in a test, without a daemon."""

import time
from typing import Any

import pytest

from aios.adapter import BlockingContext, Context
from aios.adapters.functions import Adapter
from aios.errors import CapabilityFailed, InputRequired, TaskTimeout, ValidationFailed
from aios.model import InputRequest, Retry
from aios.testing import ScriptedAdapter, run

shop = Adapter("com.example.shop", name="Shop tools")


@shop.capability("compat.shop.compare", name="Compare prices", permission="medium", scope="{url}")
async def compare(ctx: Context, query: str, sites: list[str], url: str = "https://shop.example/") -> dict[str, Any]:
    """Compare the price of a product on several sites."""
    found = [await ctx.step(f"search:{site}", search, site, query) for site in sites]
    choice = await ctx.ask("Which product?", options=["a", "b"], timeout_ms=300_000)
    return {"cheapest": choice, "found": found, "url": url}


async def search(site: str, query: str) -> str:
    return f"{query} at {site}"


@shop.capability("compat.shop.buy", name="Buy")
def buy(ctx: BlockingContext, name: str) -> int:
    signed_in = ctx.authenticate("api_key", reason="to buy")
    ctx.sleep(86_400_000)
    return len(name) + len(signed_in["api_key"])


@shop.capability("compat.shop.flaky", name="Flaky")
async def flaky(ctx: Context) -> dict[str, int]:
    if ctx.attempt < 3:
        raise CapabilityFailed("sold out", data={"attempt": ctx.attempt})
    return await ctx.spawn("test.other", {"attempt": ctx.attempt})


async def test_a_capability_is_run_with_its_answers_and_gives_its_result() -> None:
    answers = {"Which product?": "b"}
    assert await run(compare, {"query": "ears", "sites": ["x", "y"]}, answers=answers) == {
        "cheapest": "b",
        "found": ["ears at x", "ears at y"],
        "url": "https://shop.example/",
    }


async def test_an_answer_may_be_a_function_of_the_question() -> None:
    def first(request: InputRequest) -> Any:
        return (request.options or [])[0]

    answers = {"Which product?": first}
    assert (await run(compare, {"query": "ears", "sites": []}, answers=answers))["cheapest"] == "a"


async def test_a_day_of_sleep_takes_no_time_and_a_sign_in_is_answered_by_its_type() -> None:
    started = time.monotonic()
    assert await run(buy, {"name": "ears"}, {"api_key": {"api_key": "12345"}}) == {"value": 9}
    assert time.monotonic() - started < 20


async def test_a_question_without_an_answer_times_out_where_it_can_and_else_says_what_was_asked() -> None:
    with pytest.raises(TaskTimeout, match="nobody answered"):
        await run(compare, {"query": "ears", "sites": []})
    with pytest.raises(InputRequired, match="asks 'api_key'"):
        await run(buy, {"name": "ears"})


async def test_retries_wait_for_nothing_and_others_may_be_spawned() -> None:
    async def other(arguments: dict[str, Any], _: Context) -> dict[str, Any]:
        return arguments

    scripted = ScriptedAdapter({"test.other": other})
    retry = Retry(max_attempts=3, delay_ms=60_000)
    assert await run(flaky, retry=retry, adapters=[scripted]) == {"attempt": 3}


async def test_a_child_that_sleeps_takes_no_time_either() -> None:
    async def other(_: dict[str, Any], ctx: Context) -> str:
        await ctx.sleep(3_600_000)
        return "awake"

    async def parent(_: dict[str, Any], ctx: Context) -> Any:
        return await ctx.spawn("test.other")

    scripted = ScriptedAdapter({"test.other": other, "test.parent": parent})
    assert await run("test.parent", adapters=[scripted]) == {"value": "awake"}


async def test_a_failure_is_raised_as_what_it_was() -> None:
    with pytest.raises(CapabilityFailed, match="sold out") as raised:
        await run(flaky)
    assert raised.value.data["attempt"] == 1


async def test_arguments_are_held_against_the_schema() -> None:
    with pytest.raises(ValidationFailed):
        await run(compare, {"query": 1, "sites": []})


async def test_what_is_no_capability_is_refused() -> None:
    with pytest.raises(ValidationFailed, match="is no capability"):
        await run(search)
