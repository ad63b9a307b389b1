// The WebAssembly module of the page, as functions on plain JavaScript values. A result is an object
// from name to tensor {name, rows, columns, values}.

// What starts each section, in the order of the page.
const sections = [];

const textbook = {
  exports: null,
  spare: null,
  error: "",

  async load() {
    const packed = atob(document.getElementById("wasm").textContent.replace(/\s+/g, ""));
    const bytes = Uint8Array.from(packed, (c) => c.charCodeAt(0));
    const fail = (at, length) => {
      const view = new Uint8Array(this.exports.memory.buffer, at, length);
      this.error = new TextDecoder().decode(view);
    };
    const module = await WebAssembly.compile(bytes);
    this.instance = async () => {
      const { exports } = await WebAssembly.instantiate(module, { page: { fail } });
      exports._initialize();
      return exports;
    };
    this.exports = await this.instance();
    this.spare = await this.instance();
    this.readTable();
  },

  // A call that failed leaves its stack behind: the next one gets a new instance. Small modules could
  // be started on the spot, but not in every browser.
  async startAnew() {
    if (this.spare === null) return;
    this.exports = this.spare;
    this.spare = null;
    this.spare = await this.instance();
  },

  // Calls an exported function; what the C++ throws is thrown here with its text.
  call(name, ...values) {
    this.error = "";
    try {
      return this.exports[name](...values);
    } catch (problem) {
      const text = this.error || String(problem);
      this.startAnew();
      throw new Error(text);
    }
  },

  string(at) {
    const bytes = new Uint8Array(this.exports.memory.buffer);
    return new TextDecoder().decode(bytes.subarray(at, bytes.indexOf(0, at)));
  },

  putText(text) {
    const bytes = new TextEncoder().encode(text);
    const at = this.call("lesson_text", bytes.length);
    new Uint8Array(this.exports.memory.buffer, at, bytes.length).set(bytes);
  },

  putNumbers(numbers) {
    const at = this.call("lesson_numbers", numbers.length);
    new Float64Array(this.exports.memory.buffer, at, numbers.length).set(numbers);
  },

  results(count) {
    const found = {};
    for (let i = 0; i < count; ++i) {
      const name = this.string(this.call("lesson_result_name", i));
      const rows = this.call("lesson_result_rows", i);
      const columns = this.call("lesson_result_columns", i);
      const at = this.call("lesson_result_values", i);
      const values = [...new Float64Array(this.exports.memory.buffer, at, rows * columns)];
      found[name] = { name, rows, columns, values };
    }
    return found;
  },

  // The table of mistakes: name, says, value ("", "number", "packing", "module"), inNorm, inBlock.
  readTable() {
    this.mistakes = [];
    const count = this.call("lesson_mistake_count");
    for (let i = 0; i < count; ++i) {
      const places = this.call("lesson_mistake_places", i);
      this.mistakes.push({
        name: this.string(this.call("lesson_mistake_name", i)),
        says: this.string(this.call("lesson_mistake_says", i)),
        value: ["", "number", "packing", "module"][this.call("lesson_mistake_value", i)],
        inNorm: (places & 1) !== 0,
        inBlock: (places & 2) !== 0,
      });
    }
  },

  // settings: {post, activation, tied, eps}; mistakes: [{name, where, number, text}].
  begin(settings = {}, mistakes = []) {
    const activation = ["relu", "gelu", "gelu-tanh", "gelu-quick"].indexOf(
      settings.activation ?? "gelu-tanh");
    const tied = settings.tied ?? true;
    this.call("lesson_begin", settings.post ? 1 : 0, activation, tied ? 1 : 0,
      settings.eps ?? 1e-5);
    for (const { name, where = "", number, text = "" } of mistakes) {
      this.putText([name, where, text].join("\n"));
      this.call("lesson_add_mistake", number === undefined ? 0 : 1, number ?? 0);
    }
  },

  // All stages of the small model for a text of a to z and spaces.
  model(text, { settings, mistakes, strength = 1 } = {}) {
    this.begin(settings, mistakes);
    this.putText(text);
    return this.results(this.call("lesson_model", strength));
  },

  // x: rows of numbers.
  layerNorm(x, weight, bias, eps, mistakes = []) {
    this.begin({ eps }, mistakes);
    this.putNumbers([...x.flat(), ...weight, ...bias]);
    return this.results(this.call("lesson_layer_norm", x.length, weight.length));
  },

  growth(depth, gain) {
    return this.results(this.call("lesson_growth", depth, gain));
  },

  parameters() {
    return this.results(this.call("lesson_parameters"));
  },
};

// --- Comparing two tensors ------------------------------------------------------------------------

function largestDifference(a, b) {
  let largest = 0;
  a.values.forEach((value, i) => {
    const difference = Math.abs(value - b.values[i]);
    // A NaN is the largest difference there is.
    if (!(difference <= largest)) largest = difference;
  });
  return largest;
}

// Σ (a − b)² / Σ a²
function normalizedError(a, b) {
  let difference = 0, size = 0;
  a.values.forEach((value, i) => {
    difference += (value - b.values[i]) ** 2;
    size += value ** 2;
  });
  return difference / size;
}

function rootMeanSquare(values) {
  return Math.sqrt(values.reduce((sum, x) => sum + x * x, 0) / values.length);
}

function rowOf(tensor, row) {
  return tensor.values.slice(row * tensor.columns, (row + 1) * tensor.columns);
}

function argmax(values) {
  return values.reduce((best, x, i) => (x > values[best] ? i : best), 0);
}
