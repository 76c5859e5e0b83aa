"""Canonical text: one text for all spellings of a question that mean the same on every row."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from everhold.queries.expression.tree import Call, Case, Column, Logic, Node, Null, Number, Test, Text, Truth

__all__ = ["canonical", "looks_like_text", "named", "text_of"]

Named = tuple[Node, str]


def canonical(node: Node) -> Node:
    """The tree in its normal form: NOT at the leaves, AND and OR flattened, sorted and without repeats."""
    return named(node)[0]


def text_of(node: Node) -> str:
    """The text of a tree in its normal form; it parses to the same tree."""
    return named(node)[1]


_WORDS = ("TRUE", "FALSE", "NULL", "CASE", "MEAN", "SHARE", "QUANTILE", "DIFFERENCE", "VARIANCE", "CORRELATION", "NOT")


def looks_like_text(name: str) -> bool:
    """Whether a name could be the canonical text of a question; such names are reserved.

    >>> looks_like_text('("age" < 40.0)'), looks_like_text("ridge, third try")
    (True, False)
    """
    return name[:1] in ("(", '"', "'") or name.split(" ")[0].upper() in _WORDS


def named(node: Node) -> Named:
    """The normal form and its text, built together from the leaves up."""
    if isinstance(node, Test):
        return _test(node)
    if isinstance(node, Logic):
        return _negated(node.args[0]) if node.op == "not" else _joined(node.op, _parts(node.op, node, False))
    if isinstance(node, Column):
        return node, '"' + node.name.replace('"', '""') + '"'
    if isinstance(node, Number):
        return node, _moment(node.value) if node.kind == "date" else repr(node.value + 0.0)
    if isinstance(node, Text):
        return node, "'" + node.value.replace("'", "''") + "'"
    if isinstance(node, Call):
        return _call(node)
    if isinstance(node, Case):
        branches = [(named(condition), named(value)) for condition, value in node.branches]
        otherwise, last = named(node.otherwise)
        text = " ".join(f"WHEN {condition[1]} THEN {value[1]}" for condition, value in branches)
        pairs = tuple((condition[0], value[0]) for condition, value in branches)
        return Case(pairs, otherwise, node.kind), f"CASE {text} ELSE {last} END"
    if isinstance(node, Truth):
        return node, "TRUE" if node.value else "FALSE"
    return Null(node.kind), "NULL"


def _by_text(item: Named) -> str:
    return item[1]


def _test(node: Test) -> Named:
    args = [named(arg) for arg in node.args]
    first = args[0]
    if node.op == "null":
        return Test("null", (first[0],)), f"({first[1]} IS NULL)"
    if node.op == "in":
        items = _once(args[1:])
        if len(items) > 1:
            tree = Test("in", (first[0], *(item for item, _ in items)))
            return tree, f"({first[1]} IN ({', '.join(text for _, text in items)}))"
        args = [first, items[0]]
    if node.op in ("=", "in"):
        args.sort(key=_by_text)
        return Test("=", (args[0][0], args[1][0])), f"({args[0][1]} = {args[1][1]})"
    return Test(node.op, (first[0], args[1][0])), f"({first[1]} {node.op.upper()} {args[1][1]})"


def _negated(inner: Node) -> Named:
    if isinstance(inner, Logic):
        if inner.op == "not":
            return named(inner.args[0])
        op = "or" if inner.op == "and" else "and"
        return _joined(op, _parts(op, inner, True))
    if isinstance(inner, Test) and inner.op in ("<", "<="):
        # NOT a < b is b <= a: if a value is missing, neither is true or false.
        return _test(Test("<=" if inner.op == "<" else "<", (inner.args[1], inner.args[0])))
    if isinstance(inner, Truth):
        return named(Truth(not inner.value))
    tree, text = named(inner)
    return Logic("not", (tree,)), f"(NOT {text})"


def _parts(op: str, node: Node, negated: bool) -> list[Named]:
    """The operands of a chain of ANDs (or ORs), with NOT pushed inwards."""
    if isinstance(node, Logic):
        if node.op == "not":
            return _parts(op, node.args[0], not negated)
        if ((node.op == "and") != negated) == (op == "and"):
            return [part for arg in node.args for part in _parts(op, arg, negated)]
    operand = _negated(node) if negated else named(node)
    if isinstance(operand[0], Logic) and operand[0].op == op:  # its own operands collapsed to one part
        return [named(arg) for arg in operand[0].args]
    return [operand]


def _joined(op: str, parts: list[Named]) -> Named:
    flat = _once(parts)
    if len(flat) == 1:
        return flat[0]
    tree = Logic("and" if op == "and" else "or", tuple(tree for tree, _ in flat))
    return tree, "(" + f" {op.upper()} ".join(text for _, text in flat) + ")"


def _once(items: Iterable[Named]) -> list[Named]:
    """Sort by text and drop repeats."""
    return [(tree, text) for text, tree in sorted({text: tree for tree, text in items}.items(), key=lambda item: item[0])]


def _call(node: Call) -> Named:
    args = [named(arg) for arg in node.args]
    if node.name in ("+", "*"):
        args.sort(key=_by_text)
    elif node.name in ("least", "greatest"):
        args = _once(args)
        if len(args) == 1:
            return args[0]
    texts = [text for _, text in args]
    if node.name == "neg" and isinstance(number := args[0][0], Number):
        return named(Number(-number.value))  # the form that the parser produces
    if node.name == "neg":
        shown = f"(- {texts[0]})"
    elif node.name in ("+", "-", "*", "/", "%"):
        shown = f"({texts[0]} {node.name} {texts[1]})"
    else:
        shown = f"{node.name}({', '.join(texts)})"
    return Call(node.name, tuple(tree for tree, _ in args), node.kind), shown


def _moment(micros: float) -> str:
    moment = datetime(1970, 1, 1) + timedelta(microseconds=int(micros))
    return f"'{moment.isoformat(sep=' ')}'"
