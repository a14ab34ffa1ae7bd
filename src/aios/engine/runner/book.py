"""The durable steps of one run: what each call is called, and what was recorded of it before.

A step's key is its kind, its name and the how-manieth of that name it is in this run: code that is run again makes the same
calls in the same order and so finds its records. Where it does not, the digest of function and arguments differs, and the task
fails instead of going on with another step's value.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from aios.engine.vault import Vault, place
from aios.errors import CapabilityChanged, StepNameRepeated, ValidationFailed
from aios.model import Step, TaskId

_OWN = "="
"""Stands behind the kind in a key of the code's own, where a numbered one has a colon."""
NAME_CHARACTERS_MAX = 200
"""A longer name (a question's prompt may be one) is cut, and told apart by its digest."""


def _type_name(value: object) -> str:
    """Stand for an argument that is no JSON (a client, a lock): its kind is all that a re-run can compare."""
    return f"<{type(value).__qualname__}>"


_encode_sorted = msgspec.json.Encoder(order="deterministic", enc_hook=_type_name).encode


def digest_of(subject: object, arguments: Sequence[Any]) -> bytes:
    """Digest what a step is to do: a function (or a capability's id) and its arguments."""
    while isinstance(subject, functools.partial):
        arguments = (*subject.args, subject.keywords, *arguments)
        subject = subject.func
    name = subject if isinstance(subject, str) else getattr(subject, "__qualname__", type(subject).__qualname__)
    try:
        encoded = _encode_sorted(arguments)
    except (UnicodeEncodeError, RecursionError, ValueError, TypeError, OverflowError) as error:
        raise ValidationFailed(f"The arguments of step {name} are not JSON: {error}.") from None
    return hashlib.sha256(f"{name}\n".encode() + encoded).digest()


class Book:
    """Names a run's durable calls, and knows what is recorded of them.

    Args:
        recorded: What earlier runs left; none at a task's first run.
    """

    __slots__ = ("_counts", "_open", "_recorded", "_task_id", "_vault", "secrets")

    def __init__(self, task_id: TaskId, recorded: Iterable[Step], *, vault: Vault) -> None:
        self._task_id = task_id
        self._vault = vault
        self._recorded = {step.key: step for step in recorded}
        self._counts: dict[str, int] = {}
        self._open: set[str] = set()
        self.secrets: set[str] = set()
        """Texts that must not be told to anybody."""

    def occurrence(self, subject: str) -> int:
        """Count one more of its name, and say which it is: 1 for the first."""
        count = self._counts.get(subject, 0) + 1
        self._counts[subject] = count
        return count

    def count(self, subject: str) -> int:
        """Say how many of its name there have been; the first, where there was none."""
        return self._counts.setdefault(subject, 1)

    def name(self, kind: str, name: str, key: str | None = None) -> str:
        """Give the next call of this kind and name its key; `key` is the code's own choice of what tells it apart."""
        if key is not None:
            return f"{kind}{_OWN}{_short(key)}"
        subject = f"{kind}:{_short(name)}"
        return f"{subject}#{self.occurrence(subject)}"

    @contextmanager
    def opened(self, kind: str, name: str, key: str | None = None) -> Generator[str]:
        """Name a call, and hold its name open until it is done.

        Raises:
            StepNameRepeated: A call of that name is open: on a re-run the two could come in the other order.
        """
        subject = f"{kind}:{name}" if key is None else f"{kind}={key}"
        if subject in self._open:
            raise StepNameRepeated(
                f"The {kind} {name if key is None else key!r} is open already; "
                "calls that run at the same time need different names, or a key each.",
                name=name,
            )
        self._open.add(subject)
        try:
            yield self.name(kind, name, key)
        finally:
            self._open.discard(subject)

    def recall(self, key: str, digest: bytes = b"") -> Step | None:
        """Give what is recorded under a key.

        Raises:
            CapabilityChanged: It was recorded by another function, or for other arguments.
        """
        step = self._recorded.get(key) if _is_own(key) else self._recorded.pop(key, None)
        if step is not None and step.digest and digest and step.digest != digest:
            raise CapabilityChanged(
                f"Step {key!r} was recorded by another function or with other arguments; the code has changed since, or does "
                "not do the same on every run. Give its steps keys, or start the task anew.",
                step=key,
            )
        return step

    def make(self, key: str, encoded: bytes, *, digest: bytes = b"", is_secret: bool = False) -> Step:
        """Make the record of a value."""
        if is_secret:
            encoded = self._vault.seal(encoded, place(self._task_id, key))
        return Step(key=key, digest=digest, value=encoded, is_secret=is_secret)

    def note(self, step: Step) -> None:
        """Know a step that has been recorded now, if this run may come to its key again: a number comes but once."""
        if _is_own(step.key):
            self._recorded[step.key] = step

    def value_of(self, step: Step) -> Any:
        """Give a recorded value, a secret one opened."""
        if not step.is_secret:
            return msgspec.json.decode(step.value)
        value = msgspec.json.decode(self._vault.open(step.value, place(self._task_id, step.key)))
        self.secrets.update(_texts(value))
        return value


def _is_own(key: str) -> bool:
    """Whether the code has chosen what tells this call apart."""
    return key.find(_OWN) != -1 and ":" not in key[: key.find(_OWN)]


def _short(name: str) -> str:
    if len(name) <= NAME_CHARACTERS_MAX and "\0" not in name:
        return name
    told = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{name[:NAME_CHARACTERS_MAX].replace(chr(0), '')}~{told}"


SECRET_CHARACTERS_MIN = 6
"""A shorter text is too common to be kept out of sentences."""


def _texts(value: Any) -> Generator[str]:
    if isinstance(value, str) and len(value) >= SECRET_CHARACTERS_MIN:
        yield value
    elif isinstance(value, dict):
        for each in value.values():  # pyright: ignore[reportUnknownVariableType]
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:  # pyright: ignore[reportUnknownVariableType]
            yield from _texts(each)


Redact = Callable[[str], str]


def redact(text: str, secrets: Iterable[str]) -> str:
    """Take the secrets out of a text."""
    for secret in secrets:
        text = text.replace(secret, "•••")
    return text
