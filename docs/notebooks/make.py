"""Run the cells of a notebook in order and keep what they show: `python docs/notebooks/make.py FILE`."""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any


def shown_by(source: str, names: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """The outputs of one cell: what it prints, its last value, its figures."""
    from matplotlib import pyplot

    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, "<cell>", "exec"), names)
        value = None if last is None else eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": printed.getvalue().splitlines(keepends=True)})
    if value is not None:
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = value._repr_html_().splitlines(keepends=True)
        outputs.append({"output_type": "execute_result", "execution_count": number, "data": data, "metadata": {}})
    for figure in pyplot.get_fignums():
        picture = io.BytesIO()
        pyplot.figure(figure).savefig(picture, format="png", dpi=80)
        data = {"image/png": base64.b64encode(picture.getvalue()).decode()}
        outputs.append({"output_type": "display_data", "data": data, "metadata": {}})
    pyplot.close("all")
    return outputs


def main(path: Path) -> None:
    """Run one notebook and write it again."""
    import matplotlib

    matplotlib.use("Agg")
    notebook = json.loads(path.read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    for number, cell in enumerate(notebook["cells"], 1):
        cell["id"] = f"cell-{number}"
        if cell["cell_type"] == "code":
            cell["outputs"] = shown_by("".join(cell["source"]), names, number)
            cell["execution_count"] = number
    path.write_text(json.dumps(notebook, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
