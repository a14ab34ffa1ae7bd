from itertools import product

import pytest

from aios.model import Limits
from aios.rules.queueing import has_room, has_slot, may_enter

LIMITS = Limits(max_concurrent_tasks=3, max_tasks_per_tool=2, max_queue_size=2)


@pytest.mark.parametrize(
    ("running", "of_adapter", "free"), [(0, 0, True), (2, 1, True), (2, 2, False), (3, 0, False), (4, 3, False)]
)
def test_a_slot_is_free_below_both_limits(running: int, of_adapter: int, free: bool) -> None:
    assert has_slot(running, of_adapter, LIMITS) is free


@pytest.mark.parametrize(("pending", "room"), [(0, True), (1, True), (2, False), (3, False)])
def test_the_queue_has_room_below_its_limit(pending: int, room: bool) -> None:
    assert has_room(pending, LIMITS) is room


def test_a_task_is_refused_exactly_when_the_queue_is_full_and_no_slot_is_free_for_it() -> None:
    for pending, running, of_adapter in product(range(4), range(5), range(4)):
        is_full, is_free = pending >= 2, running < 3 and of_adapter < 2
        entered = may_enter(pending=pending, running=running, running_of_adapter=of_adapter, limits=LIMITS)
        assert entered is not (is_full and not is_free)


def test_a_free_slot_does_not_let_a_delayed_task_into_a_full_queue() -> None:
    assert not may_enter(pending=2, running=0, running_of_adapter=0, limits=LIMITS, is_due=False)
    assert may_enter(pending=1, running=3, running_of_adapter=2, limits=LIMITS, is_due=False)


def test_without_a_queue_only_a_free_slot_lets_a_task_in() -> None:
    limits = Limits(max_concurrent_tasks=1, max_queue_size=0)
    assert may_enter(pending=0, running=0, running_of_adapter=0, limits=limits)
    assert not may_enter(pending=0, running=1, running_of_adapter=0, limits=limits)
