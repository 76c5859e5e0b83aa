"""The language on one row at a time, in plain Python: the meaning that every engine is compared with."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

import numpy as np

from everhold.queries.expression.case import lower_case, upper_case
from everhold.queries.expression.tree import Case, Column, Logic, Null, Number, Test, Text, Truth

STEPS = 65_536


def number(value):
    return None if value is None or not math.isfinite(value) else value


def value_of(node, r):
    if isinstance(node, Number | Text | Truth):
        return node.value
    if isinstance(node, Null):
        return None
    if isinstance(node, Column):
        return r[node.name]
    if isinstance(node, Logic):
        parts = [value_of(arg, r) for arg in node.args]
        if node.op == "not":
            return None if parts[0] is None else not parts[0]
        decisive = node.op == "or"
        if decisive in parts:
            return decisive
        return None if None in parts else not decisive
    if isinstance(node, Case):
        for condition, value in node.branches:
            if value_of(condition, r) is True:
                return value_of(value, r)
        return value_of(node.otherwise, r)
    args = [value_of(arg, r) for arg in node.args]
    if isinstance(node, Test):
        return compared(node.op, args)
    return called(node.name, args)


def compared(op, args):
    if op == "null":
        return args[0] is None
    if any(arg is None for arg in args[:2]) or args[0] is None:
        return None
    if op == "in":
        return args[0] in args[1:]
    if op == "like":
        body = args[1].strip("%")
        if args[1].startswith("%") and args[1].endswith("%"):
            return body in args[0]
        return (
            args[0].startswith(body)
            if args[1].endswith("%")
            else (args[0].endswith(body) if "%" in args[1] else args[0] == body)
        )
    return {"<": lambda a, b: a < b, "<=": lambda a, b: a <= b, "=": lambda a, b: a == b}[op](*args)


def called(name, args):
    if name == "coalesce":
        return next((arg for arg in args if arg is not None), None)
    if any(arg is None for arg in args):
        return None
    x = args[0]
    if name in ("lower", "upper"):
        return lower_case(x) if name == "lower" else upper_case(x)  # a fixed table of letters, the language's own
    if name == "length":
        return float(len(x))
    if name in ("year", "month", "day", "weekday", "hour"):
        moment = datetime(1970, 1, 1) + timedelta(microseconds=int(x))
        return float(moment.weekday() if name == "weekday" else getattr(moment, name))
    try:
        result = {
            "+": lambda: x + args[1],
            "-": lambda: x - args[1],
            "*": lambda: x * args[1],
            "/": lambda: None if abs(args[1]) < 1e-30 else x / args[1],
            "%": lambda: None if abs(args[1]) < 1e-30 else x - args[1] * math.trunc(x / args[1]),
            "neg": lambda: -x,
            "abs": lambda: abs(x),
            "sqrt": lambda: math.sqrt(x),
            "ln": lambda: float(np.float32(math.log(x))) if x >= 1e-30 else None,
            "exp": lambda: None if x > 80 else float(np.float32(math.exp(x))) if x >= -87 else 0.0,
            "floor": lambda: float(math.floor(x)),
            "ceil": lambda: float(math.ceil(x)),
            "round": lambda: float(np.rint(x)),
            "least": lambda: min(args),
            "greatest": lambda: max(args),
        }[name]()
    except (ZeroDivisionError, ValueError, OverflowError):
        return None
    return number(result)


def steps_of(question, row) -> int:
    """The steps of a question on one row: a mapping of names to numbers, texts, truths, microseconds or None."""
    if question.yes_no:
        return STEPS if value_of(question.tree, row) is True else 0
    if question.given is not None and value_of(question.given, row) is not True:
        return 0
    value = value_of(question.tree, row)
    if value is None:
        return 0
    place = (float(value) - question.low) / (question.high - question.low)
    steps = int(np.rint(min(max(place, 0.0), 1.0) * STEPS))
    return STEPS - steps if question.reverse else steps
