"""A task's questions and sign-ins, put to whoever sits at the terminal."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import click

from aios.cli.arguments import Unfit
from aios.cli.face import clean
from aios.cli.questions import SKIPPED, Choose, Form, Line, Prompt, answer_of, instruction, prompt_of
from aios.model import JsonObject

if TYPE_CHECKING:
    from aios.cli.display import Display
    from aios.cli.terminal import Terminal
    from aios.client import Question, SignIn

OPTIONS_SHOWN_MAX = 200
"""More would scroll the question away; the numbers beyond can be chosen all the same."""


class Asker:
    """Asks; given up by cancellation, when somebody else has answered."""

    def __init__(self, terminal: Terminal, display: Display) -> None:
        self._terminal = terminal
        self._display = display

    async def answer(self, question: Question) -> Any:
        """Ask a question until what is typed could be an answer. Raises: EOFError for Ctrl-D."""
        self._begin(question.prompt, question.errors)
        prompt = prompt_of(question.options, question.schema)
        try:
            if isinstance(prompt, Form):
                return await self._form(prompt)
            self._list(prompt)
            return await self._until_fit("Answer", prompt)
        except BaseException:
            self._terminal.show("\n")
            raise

    async def sign_in(self, need: SignIn) -> JsonObject | None:
        """Ask for what a sign-in of this type needs; None where somebody has to decide elsewhere."""
        reason = need.request.get("reason")
        self._begin(f"The task needs a sign-in ({need.type})" + (f": {reason}" if reason else ""), need.errors)
        match need.type:
            case "api_key":
                return {"api_key": await self._secret("API key")}
            case "password":
                return {"username": await self._text("User name"), "password": await self._secret("Password")}
            case "certificate":
                return await self._certificate()
            case "oauth2":
                return await self._oauth2(need.request)
            case _:
                request_id = need.request.get("request_id", "")
                self._show(f"It is decided elsewhere{f' ({request_id})' if request_id else ''}; waiting.")
                return None

    def _begin(self, text: str, errors: list[JsonObject]) -> None:
        self._display.hide()
        self._terminal.forget_typed()
        for error in errors:
            self._show(click.style(clean(f"That does not fit: {error.get('message', '')}"), fg="red"))
        self._show(click.style(clean(text), bold=True))

    def _show(self, text: str) -> None:
        self._terminal.show(f"{text}\n")

    def _list(self, prompt: Prompt) -> None:
        if not isinstance(prompt, Choose):
            return
        digits = len(str(len(prompt.labels)))
        for number, label in enumerate(prompt.labels[:OPTIONS_SHOWN_MAX], 1):
            self._show(f"  {number:>{digits}}  {clean(label, is_one_line=True)}")
        if (more := len(prompt.labels) - OPTIONS_SHOWN_MAX) > 0:
            self._show(f"  … and {more} more, up to number {len(prompt.labels)}")

    async def _form(self, form: Form) -> JsonObject:
        answers: JsonObject = {}
        for member in form.members:
            self._list(member.prompt)
            title = member.title if member.is_required else f"{member.title}, optional"
            value = await self._until_fit(title, member.prompt, is_required=member.is_required)
            if value is not SKIPPED:
                answers[member.name] = value
        return answers

    async def _until_fit(self, title: str, prompt: Prompt, *, is_required: bool = True) -> Any:
        how = instruction(prompt)
        words = clean(f"{title} [{how}]: " if how else f"{title}: ", is_one_line=False)
        while True:
            typed = await self._terminal.line(words, is_secret=isinstance(prompt, Line) and prompt.is_secret)
            try:
                return answer_of(prompt, typed, is_required=is_required)
            except Unfit as error:
                self._show(click.style(clean(str(error)), fg="red"))

    async def _text(self, title: str) -> str:
        return str(await self._until_fit(title, Line(schema={"type": "string", "minLength": 1})))

    async def _secret(self, title: str) -> str:
        return str(await self._until_fit(title, Line(schema={"type": "string", "minLength": 1}, is_secret=True)))

    async def _certificate(self) -> JsonObject:
        response: JsonObject = {"certificate": await self._file("File of the certificate (PEM)")}
        key = await self._file("File of the private key (PEM; Enter if there is none)", may_be_empty=True)
        return response | ({"private_key": key} if key else {})

    async def _file(self, title: str, *, may_be_empty: bool = False) -> str:
        while True:
            typed = await self._terminal.line(f"{title}: ")
            if not typed and may_be_empty:
                return ""
            try:
                return await asyncio.to_thread(_read, typed)
            except (OSError, UnicodeError) as error:
                self._show(click.style(clean(f"{typed}: {error}"), fg="red"))

    async def _oauth2(self, request: JsonObject) -> JsonObject:
        self._show(
            f"Open this address and sign in:\n  {clean(str(request.get('authorization_url', '')), is_one_line=True)}"
        )
        typed = await self._text("The code, or the whole address you were sent back to")
        query = parse_qs(urlsplit(typed).query) if "://" in typed else {}
        code, state = query.get("code", [typed])[0], query.get("state", [request.get("state")])[0]
        return {"authorization_code": code} | ({"state": state} if state else {})


def _read(path: str) -> str:
    return Path(path).expanduser().read_text(encoding="utf-8")
