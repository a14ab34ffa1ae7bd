"""Functions as capabilities: what is offered, what is refused, how they are called."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from aios.adapter import BlockingContext, Capability, Context, PermissionLevel
from aios.adapters.functions import Adapter
from aios.errors import CapabilityNotFound, ValidationFailed
from aios.model import OnCrash


class InThread:
    """A context, as far as a plain `def` needs one."""

    def __init__(self) -> None:
        self.blocking = object()
        self.is_last = False

    async def in_thread(self, call: Callable[[Any], Any], *, is_last: bool = False) -> Any:
        self.is_last = is_last
        return call(self.blocking)


def only(adapter: Adapter) -> Capability:
    (capability,) = adapter.capabilities()
    return capability


async def call(adapter: Adapter, ctx: Any = None, **arguments: Any) -> Any:
    return await adapter.run(only(adapter).id, arguments, cast("Context", ctx))


def test_all_that_was_said_is_in_the_capability() -> None:
    shop = Adapter("com.example.shop", name="Shop tools", version="2.1.0")

    @shop.capability(
        "compat.shop.compare",
        name="Compare prices",
        permission="medium",
        scope="{url}",
        timeout_ms=120_000,
        on_crash="fail",
        category="shopping",
        examples=[{"url": "https://shop.example/"}],
    )
    async def compare(ctx: Context, url: str) -> dict[str, int]:
        """Compare the price of a product."""
        return {}

    capability = only(shop)
    assert (shop.adapter_id, shop.name, shop.version) == ("com.example.shop", "Shop tools", "2.1.0")
    assert (capability.id, capability.name, capability.adapter_id) == (
        "compat.shop.compare", "Compare prices", "com.example.shop",
    )  # fmt: skip
    assert capability.description == "Compare the price of a product."
    assert capability.permission_level is PermissionLevel.MEDIUM
    assert capability.permission_id == "aios.permission.compat.shop.compare"
    assert capability.scope == "{url}"
    assert capability.timeout_ms == 120_000
    assert capability.on_crash is OnCrash.FAIL
    assert capability.version == "2.1.0"
    assert capability.output == {"type": "object", "additionalProperties": {"type": "integer"}}
    assert compare.__name__ == "compare"


async def test_an_async_function_is_awaited_and_given_the_context() -> None:
    adapter = Adapter("test.adapter")

    @adapter.capability("test.echo", name="Echo")
    async def echo(ctx: Context, text: str) -> tuple[Any, str]:
        return ctx, text

    ctx = InThread()
    assert await call(adapter, ctx, text="hello") == (ctx, "hello")


async def test_a_plain_function_runs_in_a_thread_with_the_blocking_face() -> None:
    adapter = Adapter("test.adapter")

    @adapter.capability("test.echo", name="Echo")
    def echo(text: str, ctx: BlockingContext) -> tuple[Any, str]:
        return ctx, text

    ctx = InThread()
    assert await call(adapter, ctx, text="hello") == (ctx.blocking, "hello")
    assert ctx.is_last


async def test_the_context_is_optional() -> None:
    adapter = Adapter("test.adapter")

    @adapter.capability("test.add", name="Add")
    async def add(a: int, b: int = 2) -> int:
        return a + b

    assert await call(adapter, a=1) == 3


async def test_a_capability_that_is_not_offered_is_not_found() -> None:
    with pytest.raises(CapabilityNotFound, match=r"test\.adapter does not offer test\.none"):
        await Adapter("test.adapter").run("test.none", {}, cast("Context", None))


async def nothing() -> None: ...
async def yields() -> Any:
    yield 1


@pytest.mark.parametrize(
    ("id", "function", "options", "sentence"),
    [
        ("Compat.shop", nothing, {}, "is not a capability's id"),
        ("shop", nothing, {}, "is not a capability's id"),
        ("compat..shop", nothing, {}, "is not a capability's id"),
        ("compat.shop\n", nothing, {}, "is not a capability's id"),
        ("a." + "b" * 127, nothing, {}, "is not a capability's id"),
        ("test.x", yields, {}, "the function yields"),
        ("test.x", nothing, {"permission": "huge"}, "permission is 'huge'; it must be one of public, low"),
        ("test.x", nothing, {"on_crash": "cry"}, "on_crash is 'cry'; it must be one of rerun, fail"),
        ("test.x", nothing, {"timeout_ms": 0}, "timeout_ms is 0"),
        ("test.x", nothing, {"scope": "{url}"}, "the scope names 'url', which is no parameter"),
        ("test.x", nothing, {"scope": "{"}, "is not a template"),
    ],
)
def test_what_cannot_be_offered_is_refused_when_decorating(
    id: str, function: Callable[..., Any], options: dict[str, Any], sentence: str
) -> None:
    adapter = Adapter("test.adapter")
    with pytest.raises(ValidationFailed, match=sentence):
        adapter.capability(id, name="X", **options)(function)
    assert list(adapter.capabilities()) == []


def test_an_id_is_offered_once() -> None:
    adapter = Adapter("test.adapter")
    adapter.capability("test.x", name="X")(nothing)
    with pytest.raises(ValidationFailed, match=r"test\.x: the adapter test\.adapter offers it already"):
        adapter.capability("test.x", name="X")(nothing)


def test_an_adapters_id_is_dotted_words() -> None:
    with pytest.raises(ValidationFailed, match="is not an adapter's id"):
        Adapter("shop")
