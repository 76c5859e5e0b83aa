"use strict";
// Completion in the question box, examples that fill it, fields that fit the kind, copy and confirm. No page needs this
// to work: without it, forms are sent as they are.
(() => {
  const byId = (id) => document.getElementById(id);

  // fields that fit the kind of question
  const kind = byId("kind");
  const fit = () => {
    for (const field of document.querySelectorAll("[data-for]")) {
      const fits = field.dataset.for.split(" ").includes(kind.value);
      field.hidden = !fits;
      for (const input of field.querySelectorAll("input")) input.disabled = !fits;
    }
  };
  if (kind) {
    kind.addEventListener("change", fit);
    fit();
  }

  // the button says what it does
  const send = byId("send");
  const say = () => {
    const chosen = document.querySelector('input[name="act"]:checked');
    send.textContent = chosen && chosen.value === "read" ? "Read" : "Ask";
  };
  if (send) {
    for (const one of document.querySelectorAll('input[name="act"]')) one.addEventListener("change", say);
    say();
  }

  document.addEventListener("click", (event) => {
    const fill = event.target.closest("[data-fill]");
    const copy = event.target.closest("[data-copy]");
    const confirmed = event.target.closest("[data-confirm]");
    if (fill && byId("question")) {
      const box = byId("question");
      if (kind) {
        kind.value = "share";
        fit();
      }
      box.value = fill.dataset.fill;
      box.focus();
      box.dispatchEvent(new Event("input", { bubbles: true }));
    } else if (copy && navigator.clipboard) {
      navigator.clipboard.writeText(byId(copy.dataset.copy).textContent).then(() => {
        copy.textContent = "Copied";
      });
    } else if (confirmed && !window.confirm(confirmed.dataset.confirm)) {
      event.preventDefault();
    }
  });

  // completion
  const vocabulary = byId("vocabulary");
  if (!vocabulary) return;
  const words = JSON.parse(vocabulary.textContent);
  for (const box of document.querySelectorAll("textarea[aria-controls]")) {
    complete(box, byId(box.getAttribute("aria-controls")), words);
  }
})();

// words that fit what is being typed in a box
function complete(box, list, words) {
  const name = list.id.replace(/s$/, "");
  let found = [];
  let at = -1;

  const before = () => box.value.slice(0, box.selectionStart).match(/["']?[\p{L}\p{N}_]+$/u);
  const close = () => {
    list.hidden = true;
    at = -1;
    box.removeAttribute("aria-activedescendant");
  };
  const mark = (place) => {
    at = place;
    [...list.children].forEach((item, index) => item.setAttribute("aria-selected", String(index === at)));
    if (at >= 0) {
      box.setAttribute("aria-activedescendant", list.children[at].id);
      list.children[at].scrollIntoView({ block: "nearest" });
    }
  };
  const bare = (word) => word.replace(/^["']/, "").toLowerCase();
  const show = () => {
    const typed = before();
    const start = typed ? bare(typed[0]) : "";
    found = start
      ? words.filter((word) => bare(word.text).startsWith(start) && bare(word.text) !== start).slice(0, 8)
      : [];
    list.replaceChildren(
      ...found.map((word, index) => {
        const item = document.createElement("li");
        item.id = `${name}-${index}`;
        item.setAttribute("role", "option");
        const text = document.createElement("code");
        text.textContent = word.text;
        const about = document.createElement("span");
        about.textContent = word.about;
        item.append(text, about);
        item.addEventListener("mousedown", (event) => {
          event.preventDefault();
          take(index);
        });
        return item;
      }),
    );
    list.hidden = found.length === 0;
    mark(-1);
  };
  const take = (index) => {
    const typed = before();
    const end = box.selectionStart;
    const start = typed ? end - typed[0].length : end;
    box.setRangeText(found[index].text, start, end, "end");
    close();
    box.dispatchEvent(new Event("input", { bubbles: true }));
    close();
  };
  box.addEventListener("input", show);
  box.addEventListener("blur", close);
  box.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key === "Enter") {
      event.preventDefault();
      close();
      box.form.requestSubmit();
    } else if (!list.hidden && event.key === "ArrowDown") {
      event.preventDefault();
      mark((at + 1) % found.length);
    } else if (!list.hidden && event.key === "ArrowUp") {
      event.preventDefault();
      mark((at - 1 + found.length) % found.length);
    } else if (!list.hidden && at >= 0 && (event.key === "Enter" || event.key === "Tab")) {
      event.preventDefault();
      take(at);
    } else if (event.key === "Escape") {
      close();
    }
  });
}
