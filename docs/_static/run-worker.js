// Python in a worker. The version is one whose distribution has numpy, scipy, scikit-learn and DuckDB.
const PYODIDE = "https://cdn.jsdelivr.net/pyodide/v314.0.7/full/";
const HELPER = `
import contextlib, io, traceback
from pyodide.code import eval_code_async

NAMES = {"__name__": "__main__"}

async def run_cell(code):
    printed, found = io.StringIO(), {}
    with contextlib.redirect_stdout(printed):
        try:
            value = await eval_code_async(code, NAMES)
            if value is not None:
                found = {"text": repr(value), "html": value._repr_html_() if hasattr(value, "_repr_html_") else ""}
        except BaseException as error:
            found = {"error": "".join(traceback.format_exception_only(error)).strip()}
    return {"printed": printed.getvalue(), **found}
`;
let python = null;
let current = 0; // the request that is under way

async function load(wheel) {
  const { loadPyodide } = await import(PYODIDE + "pyodide.mjs");
  python = await loadPyodide({ indexURL: PYODIDE });
  if (python._api) python._api.on_fatal = (error) => fail(error); // then nothing that waits would ever be answered
  await python.loadPackage(["numpy", "platformdirs"]);
  await python.loadPackage(wheel);
  await python.runPythonAsync(HELPER);
  return python.runPython(
    "import sys, numpy, everhold; f'everhold {everhold.__version__}, numpy {numpy.__version__}, Python {sys.version.split()[0]}'",
  );
}

function fail(error) {
  self.postMessage({ number: current, error: String(error.message || error).trim().split("\n").at(-1) });
}

self.onmessage = async ({ data }) => {
  current = data.number;
  try {
    if (data.wheel) {
      self.postMessage({ number: data.number, text: await load(data.wheel) });
      return;
    }
    await python.loadPackagesFromImports(data.code); // scikit-learn and scipy, where a cell imports them
    const run = python.globals.get("run_cell");
    const found = await run(data.code);
    self.postMessage({ number: data.number, ...found.toJs({ dict_converter: Object.fromEntries }) });
  } catch (error) {
    fail(error);
  }
};
