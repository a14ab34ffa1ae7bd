"""What all attempts of a runner share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from aios.engine.clock import Clock
from aios.engine.errands import Errands
from aios.engine.recorder import Recorder
from aios.engine.registry import Registry
from aios.engine.runner.lanes import Lanes
from aios.engine.runner.mailbox import Mailbox
from aios.engine.runner.parking import Parking
from aios.engine.vault import Vault
from aios.model import Limits

if TYPE_CHECKING:
    from aios.adapter import Context
    from aios.engine.runner.attempt import Attempt
    from aios.engine.runner.run import Run


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """The collaborators of an attempt."""

    recorder: Recorder
    registry: Registry
    clock: Clock
    limits: Limits
    vault: Vault
    lanes: Lanes
    mailbox: Mailbox
    """Of the main loop."""
    parking: Parking
    errands: Errands
    make_context: Callable[[Run], Context]
    """Makes what code is given; the context knows the run whose face it is."""
    ended: Callable[[Attempt], None]
    """Told of an attempt whose code has ended."""
    settled: Callable[[Attempt], None]
    """Told of it when its end has been recorded too."""
    is_stopping: Callable[[], bool]
