"""One text for all spellings of a question that mean the same on every row."""

from __future__ import annotations

from datetime import datetime, timedelta

from everhold.queries.expression.tree import Call, Case, Column, Logic, Node, Null, Number, Test, Text, Truth

__all__ = ["canonical", "text_of"]


def canonical(node: Node) -> Node:
    """The tree in its normal form: NOT at the leaves, AND and OR flattened, sorted and without repeats."""
    if isinstance(node, Logic):
        return _logic(node)
    if isinstance(node, Test):
        args = tuple(canonical(arg) for arg in node.args)
        if node.op == "=":
            return Test("=", tuple(sorted(args, key=text_of)))
        if node.op == "in":
            items = sorted(set(args[1:]), key=text_of)
            return (
                Test("=", tuple(sorted((args[0], items[0]), key=text_of)))
                if len(items) == 1
                else Test("in", (args[0], *items))
            )
        return Test(node.op, args)
    if isinstance(node, Call):
        args = tuple(canonical(arg) for arg in node.args)
        if node.name in ("+", "*"):
            args = tuple(sorted(args, key=text_of))
        if node.name in ("least", "greatest"):
            args = tuple(sorted(set(args), key=text_of))
            if len(args) == 1:
                return args[0]
        return Call(node.name, args, node.kind)
    if isinstance(node, Case):
        branches = tuple((canonical(condition), canonical(value)) for condition, value in node.branches)
        return Case(branches, canonical(node.otherwise), node.kind)
    return node


def _logic(node: Logic) -> Node:
    if node.op == "not":
        inner = node.args[0]
        if isinstance(inner, Logic):
            if inner.op == "not":
                return canonical(inner.args[0])
            swapped = "or" if inner.op == "and" else "and"
            return canonical(Logic(swapped, tuple(Logic("not", (arg,)) for arg in inner.args)))  # type: ignore[arg-type]
        if isinstance(inner, Test) and inner.op in ("<", "<="):
            # NOT a < b is b <= a: both are neither true nor false when something is missing.
            return canonical(Test("<=" if inner.op == "<" else "<", (inner.args[1], inner.args[0])))
        if isinstance(inner, Truth):
            return Truth(not inner.value)
        return Logic("not", (canonical(inner),))
    flat: list[Node] = []
    for arg in node.args:
        done = canonical(arg)
        flat.extend(done.args if isinstance(done, Logic) and done.op == node.op else [done])
    parts = sorted(set(flat), key=text_of)
    return parts[0] if len(parts) == 1 else Logic(node.op, tuple(parts))


def _moment(micros: float) -> str:
    moment = datetime(1970, 1, 1) + timedelta(microseconds=int(micros))
    return f"'{moment.isoformat(sep=' ')}'"


def text_of(node: Node) -> str:
    """The tree as text that parses to the same tree."""
    if isinstance(node, Column):
        return '"' + node.name.replace('"', '""') + '"'
    if isinstance(node, Number):
        return _moment(node.value) if node.kind == "date" else repr(node.value + 0.0)
    if isinstance(node, Text):
        return "'" + node.value.replace("'", "''") + "'"
    if isinstance(node, Truth):
        return "TRUE" if node.value else "FALSE"
    if isinstance(node, Null):
        return "NULL"
    if isinstance(node, Case):
        branches = " ".join(f"WHEN {text_of(condition)} THEN {text_of(value)}" for condition, value in node.branches)
        return f"CASE {branches} ELSE {text_of(node.otherwise)} END"
    args = [text_of(arg) for arg in node.args]
    if isinstance(node, Logic):
        return f"(NOT {args[0]})" if node.op == "not" else "(" + f" {node.op.upper()} ".join(args) + ")"
    if isinstance(node, Test):
        if node.op == "null":
            return f"({args[0]} IS NULL)"
        if node.op == "in":
            return f"({args[0]} IN ({', '.join(args[1:])}))"
        return f"({args[0]} {node.op.upper()} {args[1]})"
    if node.name == "neg":
        return f"(- {args[0]})"
    if node.name in ("+", "-", "*", "/", "%"):
        return f"({args[0]} {node.name} {args[1]})"
    return f"{node.name}({', '.join(args)})"
