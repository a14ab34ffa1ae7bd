"""Malformed and well-formed JSON, in the manner of the known parser corpora, one case per idea."""

from __future__ import annotations

from typing import Any

import pytest

from aios.errors import ParseError
from aios.protocol import jsonrpc

MALFORMED = [
    b"",
    b" ",
    b"\xef\xbb\xbf{}",
    b"\xff\xfe{\x00}\x00",
    b"\x00",
    b"[",
    b"]",
    b"{",
    b"}",
    b"[1",
    b"[1,",
    b"[1,]",
    b"[,1]",
    b"[1,,2]",
    b"[1}",
    b"[1 2]",
    b"[]]",
    b"[] []",
    b"{]",
    b"{,}",
    b'{"a"}',
    b'{"a":}',
    b'{"a" "b"}',
    b'{"a":1,}',
    b'{"a":1 "b":2}',
    b"{'a':1}",
    b"{a:1}",
    b"{1:1}",
    b'{"a"::1}',
    b'{"a":1}}',
    b"nul",
    b"True",
    b"NaN",
    b"-NaN",
    b"Infinity",
    b"-Infinity",
    b"[NaN]",
    b'{"a":Infinity}',
    b"1e400",
    b"[-1e400]",
    b"+1",
    b"01",
    b"-01",
    b"-",
    b".5",
    b"1.",
    b"1.e1",
    b"1e",
    b"1e+",
    b"0x1",
    b"0b1",
    b"1_000",
    b"1,5",
    "１".encode(),
    b'"',
    b'"a',
    b'"\\"',
    b'"\\x00"',
    b'"\\u12"',
    b'"\\u12zz"',
    b'"\\U0001F600"',
    b'"a\nb"',
    b'"a\tb"',
    b'"a\x00b"',
    b'"a\x1fb"',
    b"'a'",
    b'"\\ud800"',
    b'"\\udc00"',
    b'"\\ud800\\ud800"',
    b'"\\udc00\\ud800"',
    b'"\\ud800a"',
    b'{"\\udfff":1}',
    b'"\xff"',
    b'"\xc0\xaf"',
    b'"\xe0\x80\xaf"',
    b'"\xed\xa0\x80"',
    b'"\xf4\x90\x80\x80"',
    b'"\xe4\xb8"',
    b"\xe4\xb8\xad",
    b"// comment\n1",
    b"/* */ 1",
    b"1 // c",
    b"# 1",
    b"<html>",
    b"\xc2\xa0[]",
    "\u2028[]".encode(),
    b"\x0c[]",
]

WELL_FORMED: list[tuple[bytes, Any]] = [
    (b"[]", []),
    (b" \t\r\n[ ] \t\r\n", []),
    (b"{}", {}),
    (b'{"":0}', {"": 0}),
    (b'{"a":1,"a":2}', {"a": 2}),
    (b"0", 0),
    (b"-0", 0),
    (b"-1", -1),
    (b"1.5e3", 1500.0),
    (b"1E-2", 0.01),
    (b"1e-400", 0.0),
    (b"123456789012345678901234567890", 123456789012345678901234567890),
    (b"true", True),
    (b"false", False),
    (b"null", None),
    (b'"\\"\\\\\\/\\b\\f\\n\\r\\t"', '"\\/\b\f\n\r\t'),
    (b'"\\u0000"', "\0"),
    (b'"\\u4e2d"', "中"),
    ('"中"'.encode(), "中"),
    (b'"\\ud83d\\ude00"', "😀"),
    ('"😀"'.encode(), "😀"),
    (b'"\xef\xbf\xbf"', "\uffff"),
    (b'"\x7f"', "\x7f"),
    ('"\u2028"'.encode(), "\u2028"),
    (b"[[[[[]]]]]", [[[[[]]]]]),
]


@pytest.mark.parametrize("body", MALFORMED)
def test_malformed_json_is_a_parse_error(body: bytes) -> None:
    with pytest.raises(ParseError):
        jsonrpc.load(body, max_bytes=1_000)


@pytest.mark.parametrize("body", MALFORMED)
def test_malformed_json_is_a_parse_error_in_params_that_nobody_reads(body: bytes) -> None:
    with pytest.raises(ParseError):
        jsonrpc.load(b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"unknown":' + body + b"}}", max_bytes=1_000)


@pytest.mark.parametrize(("body", "value"), WELL_FORMED)
def test_well_formed_json_is_read(body: bytes, value: Any) -> None:
    read = jsonrpc.load(body, max_bytes=1_000)
    assert read == value
    assert type(read) is type(value)
