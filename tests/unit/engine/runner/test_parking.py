"""Who has to leave when too many are parked."""

from aios.engine.runner.parking import Parking


class Parked:
    def __init__(self, name: str, left: list[str], *, may_run_again: bool = True) -> None:
        self.name = name
        self.may_run_again = may_run_again
        self._left = left

    def evict(self) -> None:
        self._left.append(self.name)


def test_the_longest_waiter_leaves_first() -> None:
    left, parking = list[str](), Parking(most=2, most_threads=2)
    parked = [Parked(name, left) for name in "abcd"]
    for each in parked[:3]:
        parking.enter(each, has_thread=False)
    assert left == ["a"]
    parking.leave(parked[1])
    parking.leave(parked[1])
    parking.enter(parked[3], has_thread=False)
    assert left == ["a"]
    assert len(parking) == 2


def test_threads_are_counted_by_themselves() -> None:
    left, parking = list[str](), Parking(most=10, most_threads=1)
    parking.enter(Parked("coroutine", left), has_thread=False)
    first = Parked("first", left)
    parking.enter(first, has_thread=True)
    parking.leave(first)
    parking.enter(Parked("second", left), has_thread=True)
    assert left == []
    parking.enter(Parked("third", left), has_thread=True)
    assert left == ["second"]


def test_one_that_must_not_run_twice_leaves_only_where_there_is_no_other() -> None:
    left, parking = list[str](), Parking(most=1, most_threads=1)
    parking.enter(Parked("once", left, may_run_again=False), has_thread=False)
    parking.enter(Parked("again", left), has_thread=False)
    assert left == ["again"]
    parking.enter(Parked("once too", left, may_run_again=False), has_thread=False)
    assert left == ["again", "once"]
