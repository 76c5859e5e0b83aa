// Lets a page's code run in the browser: cells become editable, and Python (Pyodide) runs them in a worker, in order.
const here = document.querySelector("#run-here");
const cells = [...document.querySelectorAll("div.highlight-python")];
let worker = null;
let waiting = new Map();
let number = 0;

function element(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

const status = element("span", { className: "run-status", role: "status" });
const begin = element("button", { className: "run-button", textContent: "Run this page in the browser" });
const note = "Loads Python and numpy from jsDelivr, and everhold from this site. Nothing you type leaves the browser.";
here.append(begin, status, element("p", { className: "run-note", textContent: note }));

function send(message) {
  return new Promise((resolve) => {
    waiting.set(++number, resolve);
    worker.postMessage({ ...message, number });
  });
}

function show(cell, result) {
  const parts = [];
  if (result.printed) parts.push(element("pre", { textContent: result.printed }));
  if (result.html) parts.push(element("div", { innerHTML: result.html })); // made by everhold, which escapes what it shows
  else if (result.text) parts.push(element("pre", { textContent: result.text }));
  if (result.error) parts.push(element("pre", { textContent: result.error, className: "run-error" }));
  cell.output.replaceChildren(...parts);
  cell.output.dataset.text = (result.printed ?? "") + (result.text ?? "") + (result.error ?? ""); // docs/try_browser.py reads it
}

async function run(cell) {
  cell.button.disabled = true;
  cell.button.textContent = "Running …";
  show(cell, await send({ code: cell.area.value }));
  cell.button.disabled = false;
  cell.button.textContent = "Run";
}

function editable(shown) {
  const text = shown.querySelector("pre").textContent.trimEnd();
  const area = element("textarea", { value: text, rows: text.split("\n").length, spellcheck: false, ariaLabel: "Code" });
  area.addEventListener("input", () => (area.rows = area.value.split("\n").length));
  const button = element("button", { className: "run-button", textContent: "Run" });
  const output = element("div", { className: "run-output" });
  let old = shown.nextElementSibling; // the outputs of this cell, as the page was written
  while (old && old.classList.contains("output")) {
    const next = old.nextElementSibling;
    old.remove();
    old = next;
  }
  shown.replaceWith(element("div", { className: "run-cell" }, area, button, output));
  const cell = { area, button, output };
  button.addEventListener("click", () => run(cell));
  area.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.shiftKey || event.ctrlKey)) {
      event.preventDefault();
      if (!button.disabled) run(cell);
    }
  });
  return cell;
}

begin.addEventListener("click", async () => {
  begin.disabled = true;
  status.textContent = "Loading Python …";
  worker = new Worker(new URL("run-worker.js", import.meta.url), { type: "module" });
  worker.onerror = () => (status.textContent = "Python could not be loaded. Is the network blocked?");
  worker.onmessage = ({ data }) => {
    waiting.get(data.number)?.(data);
    waiting.delete(data.number);
  };
  const wheel = new URL(here.dataset.wheel, document.baseURI).href;
  const ready = await send({ wheel });
  if (ready.error) {
    status.textContent = `Python could not be loaded: ${ready.error}`;
    begin.disabled = false;
    return;
  }
  status.textContent = `${ready.text}. Running the cells in order; change and run any of them.`;
  begin.remove();
  const editables = cells.map(editable);
  for (const cell of editables) await run(cell);
  status.textContent = `${ready.text}. All cells have run; change and run any of them (Shift + Enter).`;
  here.dataset.state = "done";
});
