# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads descriptions of system calls in syzkaller's language (its documentation: "Syscall description language")."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

Option = "Type | int | str"


@dataclass(frozen=True)
class Type:
    """`ptr[in, filename]`: a name and options, which are types, numbers, or texts in quotes."""

    name: str
    options: tuple = ()
    bits: int | None = None

    def __str__(self) -> str:
        options = ", ".join(str(option) for option in self.options)
        return f"{self.name}[{options}]" if self.options else self.name


@dataclass(frozen=True)
class Field:
    name: str
    type: Type
    attributes: tuple[Type, ...] = ()


@dataclass(frozen=True)
class Call:
    """`openat$dir` has the name `openat` and the variant `dir`."""

    name: str
    variant: str
    arguments: tuple[Field, ...]
    result: Type | None
    attributes: tuple[Type, ...] = ()


@dataclass(frozen=True)
class Record:
    """A struct, or a union."""

    name: str
    fields: tuple[Field, ...]
    is_union: bool
    attributes: tuple[Type, ...] = ()
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True)
class Alias:
    name: str
    type: Type
    parameters: tuple[str, ...] = ()


@dataclass
class Descriptions:
    calls: list[Call] = field(default_factory=list)
    records: dict[str, Record] = field(default_factory=dict)
    aliases: dict[str, Alias] = field(default_factory=dict)
    resources: dict[str, Type] = field(default_factory=dict)
    flags: dict[str, list[str]] = field(default_factory=dict)

    def resolve(self, of: Type) -> Type:
        """The type that an alias stands for."""
        while True:
            if of.name == "fileoff":
                return Type(str(of.options[0]) if of.options and str(of.options[0]) != "opt" else "intptr")
            alias = BUILT_IN.get(of.name) or self.aliases.get(of.name)
            if not alias:
                return of
            options = [option for option in of.options if option != Type("opt")]
            of = replaced(alias.type, dict(zip(alias.parameters, options)))

    def integer_bytes(self, of: Type) -> int | str | None:
        """`"word"` if it is as long as an address; `None` if it is no integer."""
        of = self.resolve(of)
        while of.name in self.resources:
            of = self.resolve(self.resources[of.name])
        if of.name in ("flags", "len", "bytesize", "const", "proc"):
            of = next((option for option in of.options[1:] if self.is_integer(option)), Type("intptr"))
        return INTEGER_BYTES.get(of.name.removesuffix("be"))

    def is_integer(self, of) -> bool:
        return isinstance(of, Type) and of.name.removesuffix("be") in INTEGER_BYTES


INTEGER_BYTES = {"int8": 1, "int16": 2, "int32": 4, "int64": 8, "intptr": "word"}


def replaced(of, values: dict):
    """A template's type with its parameters replaced."""
    if not isinstance(of, Type):
        return of
    if of.name in values and not of.options:
        return values[of.name]
    return Type(of.name, tuple(replaced(option, values) for option in of.options), of.bits)


BUILT_IN = {
    "buffer": Alias("buffer", Type("ptr", (Type("DIR"), Type("array", (Type("int8"),)))), ("DIR",)),
}


class SyntaxFault(Exception):
    pass


TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r]+|\#[^\n]*) |
    (?P<line>\n) |
    (?P<text>"(?:[^"\\]|\\.)*"|`[0-9a-fA-F]*`) |
    (?P<header><[^>\n]*>) |
    (?P<number>-?0x[0-9a-fA-F]+|-?[0-9]+(?![A-Za-z_0-9])|'.') |
    (?P<word>[A-Za-z_0-9$]+) |
    (?P<sign>==|!=|&&|\|\||[\[\](){},:=&|<>?*+\-/])
    """,
    re.VERBOSE,
)


class Reader:
    """Reads one file."""

    def __init__(self, name: str, text: str, into: Descriptions) -> None:
        self.name = name
        self.into = into
        self.tokens: list[tuple[str, str, int]] = []
        self.at = 0
        line, position = 1, 0
        defines = re.compile(r"(include|incdir|define|meta)\b[^\n]*|_[ \t]*=[^\n]*")
        while position < len(text):
            starts_line = position == 0 or text[position - 1] == "\n"
            skipped = starts_line and defines.match(text, position)
            if skipped:
                position = skipped.end()
                continue
            match = TOKEN.match(text, position)
            if not match:
                raise SyntaxFault(f"{name}:{line}: {text[position:position + 30]!r}")
            kind = match.lastgroup
            if kind != "space":
                self.tokens.append((kind, match.group(), line))
            line += match.group().count("\n")
            position = match.end()
        self.tokens.append(("end", "", line))

    def fault(self, wanted: str) -> SyntaxFault:
        kind, text, line = self.tokens[self.at]
        return SyntaxFault(f"{self.name}:{line}: {wanted} expected, found {text!r}")

    def next_is(self, text: str) -> bool:
        return self.tokens[self.at][1] == text

    def take(self, text: str) -> bool:
        if self.next_is(text):
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.take(text):
            raise self.fault(repr(text))

    def skip_lines(self) -> None:
        while self.tokens[self.at][0] == "line":
            self.at += 1

    def word(self) -> str:
        kind, text, _ = self.tokens[self.at]
        if kind not in ("word", "number"):
            raise self.fault("a name")
        self.at += 1
        return text

    def file(self) -> None:
        while True:
            self.skip_lines()
            if self.tokens[self.at][0] == "end":
                return
            self.statement()

    def statement(self) -> None:
        name = self.word()
        kind, _, _ = self.tokens[self.at]
        if name == "resource" and kind == "word":
            resource = self.word()
            self.expect("[")
            self.into.resources[resource] = self.type()
            self.expect("]")
            if self.take(":"):
                self.values()
        elif name == "type" and kind == "word":
            self.alias()
        elif self.take("("):
            self.call(name)
        elif self.take("="):
            self.into.flags[name] = self.values()
        elif self.next_is("{") or self.next_is("["):
            self.record(name, ())
        else:
            raise self.fault("a declaration")
        if self.tokens[self.at][0] not in ("line", "end"):
            raise self.fault("the end of the line")

    def alias(self) -> None:
        name = self.word()
        parameters: tuple[str, ...] = ()
        if self.take("["):
            names = [self.word()]
            while self.take(","):
                names.append(self.word())
            self.expect("]")
            parameters = tuple(names)
        if self.next_is("{") or self.next_is("["):
            self.record(name, parameters)
        else:
            self.into.aliases[name] = Alias(name, self.type(), parameters)

    def values(self) -> list[str]:
        values = [self.value()]
        while self.take(","):
            self.skip_lines()
            values.append(self.value())
        return values

    def value(self) -> str:
        kind, text, _ = self.tokens[self.at]
        if kind not in ("word", "number", "text"):
            raise self.fault("a value")
        self.at += 1
        return text

    def call(self, name: str) -> None:
        arguments = []
        self.skip_lines()
        while not self.take(")"):
            arguments.append(Field(self.word(), self.type()))
            self.take(",")
            self.skip_lines()
        result = self.type() if self.tokens[self.at][0] == "word" else None
        attributes = self.attributes("(", ")")
        base, _, variant = name.partition("$")
        self.into.calls.append(Call(base, variant, tuple(arguments), result, attributes))

    def record(self, name: str, parameters: tuple[str, ...]) -> None:
        is_union = self.take("[")
        if not is_union:
            self.expect("{")
        end = "]" if is_union else "}"
        fields = []
        self.skip_lines()
        while not self.take(end):
            of_name, of_type = self.word(), self.type()
            fields.append(Field(of_name, of_type, self.attributes("(", ")")))
            self.skip_lines()
        attributes = self.attributes("[", "]")
        self.into.records[name] = Record(name, tuple(fields), is_union, attributes, parameters)

    def attributes(self, begin: str, end: str) -> tuple[Type, ...]:
        """What stands in the brackets; conditions are passed over."""
        if not self.take(begin):
            return ()
        attributes = []
        while not self.take(end):
            if self.next_is("if"):
                depth = 0
                while depth > 0 or not (self.next_is(end) or self.next_is(",")):
                    depth += {"[": 1, "]": -1}.get(self.tokens[self.at][1], 0)
                    self.at += 1
            else:
                attributes.append(self.type())
            self.take(",")
        return tuple(attributes)

    def type(self) -> Type:
        name = self.word()
        bits = self.bits(name)
        options = []
        if self.take("["):
            self.skip_lines()
            while not self.take("]"):
                options.append(self.option())
                self.take(",")
                self.skip_lines()
        return Type(name, tuple(options), bits or self.bits(name))

    def bits(self, name: str) -> int | None:
        """Of a bit-field."""
        if not name[0].isalpha() or not self.next_is(":") or self.tokens[self.at + 1][0] != "number":
            return None
        self.at += 1
        return int(self.word(), 0)

    def option(self):
        kind, text, _ = self.tokens[self.at]
        if kind == "text":
            self.at += 1
            return text
        if kind == "sign" and text == "(":
            # A sum, in brackets: only its text matters.
            depth, parts = 0, []
            while True:
                part = self.tokens[self.at][1]
                depth += {"(": 1, ")": -1}.get(part, 0)
                parts.append(part)
                self.at += 1
                if depth == 0:
                    return "".join(parts)
        if kind in ("number", "word"):
            read = self.type()
            while self.take(":") or self.take("-"):
                more = self.type()
                read = Type(f"{read}:{more}")
            return read
        raise self.fault("an option")


VALUE = re.compile(r"-?[0-9]+|\?\?\?")


def constants(text: str, architecture: str) -> dict[str, int]:
    """The values that a file of constants says for an architecture: `386`, `amd64`, `arm`, `arm64`, `riscv64`."""
    known: dict[str, int] = {}
    for line in text.splitlines():
        name, separator, values = line.partition(" = ")
        if line.startswith("#") or not separator or name == "arches":
            continue
        value = value_on(values, architecture)
        if value is not None:
            known[name] = value
    return known


def value_on(values: str, architecture: str) -> int | None:
    """`1, arm64:riscv64:2, 386:???`"""
    common, *special = values.split(", ")
    value = common
    if ":" in common:
        special, value = [common, *special], "???"
    for text in special:
        *architectures, other = text.split(":")
        if architecture in architectures:
            value = other
    return None if value == "???" else int(value)
