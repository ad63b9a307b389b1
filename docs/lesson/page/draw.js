// Making elements: numbers that keep their full precision, tensors as coloured grids that the
// keyboard can walk, SVG.

// element("p", {class: "note"}, "text", child): properties that are functions become listeners.
function element(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function fill(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(key, value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return made;
}

function find(id) {
  return document.getElementById(id);
}

// A number as people read it: 1.2247, −0.5, 2.3e−7, 0.
function readable(x, digits = 4) {
  if (Number.isNaN(x)) return "NaN";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
  if (x === 0) return "0";
  const size = Math.abs(x);
  digits = Math.max(digits, Math.floor(Math.log10(size)) + 1); // no rounding before the point
  const text = size < 1e-3 || size >= 1e5 ? x.toExponential(1).replace(".0e", "e").replace("e+", "e")
                                          : String(Number(x.toPrecision(Math.min(digits, 17))));
  return text.replaceAll("-", "−");
}

// A number in the page; data-value holds all its digits.
function number(x, digits) {
  return element("span", { class: "number", "data-value": String(x), title: String(x) },
    readable(x, digits));
}

function replace(id, ...children) {
  find(id).replaceChildren(...children.flat(Infinity));
}

// A shape such as [5, 8].
function shapeText(tensor) {
  return `[${tensor.rows}, ${tensor.columns}]`;
}

// What is said of a tensor in words, for those who do not see the picture.
function tensorInWords(tensor) {
  const size = readable(rootMeanSquare(tensor.values), 3);
  return `${tensor.rows} by ${tensor.columns} numbers of size ${size}, from ` +
    `${readable(Math.min(...tensor.values), 3)} to ${readable(Math.max(...tensor.values), 3)}`;
}

// A tensor as a grid of coloured cells: blue is positive, orange negative, the stronger the larger.
// Arrow keys walk it, and the cell's number is shown below. options: label, rowNames, columnName,
// scale (the number of full colour), tone ("signed" or "alarm").
function grid(tensor, options) {
  const { rows, columns, values } = tensor;
  const scale = options.scale ?? Math.max(...values.map(Math.abs).filter(Number.isFinite), 1e-300);
  const cell = 10, left = options.rowNames ? 14 : 0;
  const picture = svg("svg", {
    viewBox: `0 0 ${left + columns * cell} ${rows * cell}`, "aria-hidden": "true",
    style: `max-width: ${(left + columns * cell) * (columns > 16 ? 1.9 : 2.2)}px`,
  });
  const cells = values.map((x, i) => {
    const strength = Number.isFinite(x) ? Math.min(1, Math.abs(x) / scale) : 1;
    const tone = options.tone === "alarm" || !Number.isFinite(x) ? "alarm" : x < 0 ? "minus" : "plus";
    return svg("rect", {
      x: left + (i % columns) * cell + 0.4, y: Math.floor(i / columns) * cell + 0.4,
      width: cell - 0.8, height: cell - 0.8, rx: 1.6, class: tone,
      "fill-opacity": x === 0 ? 0 : (0.12 + 0.88 * strength).toFixed(3),
    });
  });
  const names = (options.rowNames ?? []).map((name, row) =>
    svg("text", { x: 4, y: row * cell + 7.6, class: "row-name" }, name === " " ? "␣" : name));
  const cursor = svg("rect", { class: "cursor", width: cell, height: cell, rx: 2, visibility: "hidden" });
  picture.append(...names, svg("rect", {
    x: left, y: 0, width: columns * cell, height: rows * cell, rx: 2, class: "grid-ground",
  }), ...cells, cursor);
  const readout = element("output", { class: "readout" }, options.hint ?? "");
  const frame = element("div", {
    class: "grid", tabindex: "0", role: "img",
    "aria-label": `${options.label}: ${tensorInWords(tensor)}. Arrow keys read single numbers.`,
    "data-values": JSON.stringify(values), "data-shape": JSON.stringify([rows, columns]),
  }, picture);
  walkable(frame, picture, { tensor, cursor, readout, cell, left, options });
  return element("div", { class: "grid-frame" }, frame, readout);
}

// Pointer and arrow keys choose a cell of a grid.
function walkable(frame, picture, { tensor, cursor, readout, cell, left, options }) {
  const { rows, columns, values } = tensor;
  let at = 0;
  const show = (i) => {
    at = i;
    const row = Math.floor(i / columns), column = i % columns;
    cursor.setAttribute("x", left + column * cell);
    cursor.setAttribute("y", row * cell);
    cursor.setAttribute("visibility", "visible");
    const name = options.rowNames ? `token ${row} “${options.rowNames[row]}”` : `row ${row}`;
    readout.replaceChildren(`${name}, ${options.columnName ?? "feature"} ${column}: `,
      number(values[i], 5));
  };
  const hide = () => {
    cursor.setAttribute("visibility", "hidden");
    readout.replaceChildren(options.hint ?? "");
  };
  frame.addEventListener("focus", () => show(at));
  frame.addEventListener("blur", hide);
  frame.addEventListener("pointerleave", () => document.activeElement === frame || hide());
  const point = (event) => {
    const box = picture.getBoundingClientRect();
    const unit = box.width / (left + columns * cell);
    const column = Math.floor(((event.clientX - box.left) / unit - left) / cell);
    const row = Math.floor((event.clientY - box.top) / unit / cell);
    if (column >= 0 && column < columns && row >= 0 && row < rows) show(row * columns + column);
  };
  frame.addEventListener("pointermove", point);
  frame.addEventListener("pointerdown", point);
  frame.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    if (at + step >= 0 && at + step < values.length) show(at + step);
  });
}

// Options of one choice as buttons of a radio group. choices: [[value, text]].
function choose(name, choices, chosen, changed) {
  return choices.map(([value, text]) =>
    element("label", { class: "choice" },
      element("input", {
        type: "radio", name, value, checked: value === chosen, change: () => changed(value),
      }), element("span", {}, text)));
}

// Runs `update` now and, unless the section sees to that itself, whenever something is typed or moved
// in it; what it throws is shown there. Returns the function that updates.
function live(sectionId, update, { onInput = true } = {}) {
  const section = find(sectionId);
  const guarded = () => {
    const notice = section.querySelector(".problem");
    try {
      update();
      notice.hidden = true;
    } catch (problem) {
      notice.textContent = problem.message;
      notice.hidden = false;
    }
  };
  section.append(element("p", { class: "problem", role: "alert", hidden: true }));
  if (onInput) section.addEventListener("input", guarded);
  matchMedia("(max-width: 599px)").addEventListener("change", guarded);
  guarded();
  return guarded;
}

// Whether a picture has a phone's width; pictures that ask are drawn again when that changes.
function narrow() {
  return document.documentElement.clientWidth < 600;
}
