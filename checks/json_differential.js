// Reads texts with JSON.parse and compares them with trees. Called by json_differential.py.
//
// Standard input has one text per line in hexadecimal, a tab, and a tree or nothing. The output is one letter per line:
// r refused, a accepted (no tree was given), s the same, d different.

const fs = require("fs");

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function parse(hex) {
  return JSON.parse(decoder.decode(Buffer.from(hex, "hex")));
}

// Objects lose the order of their keys in JavaScript, so members are looked up; numbers are compared as doubles.
function same(value, tree) {
  if (tree === null || typeof tree !== "object") return value === tree;
  if (Array.isArray(tree)) {
    return Array.isArray(value) && value.length === tree.length && tree.every((part, at) => same(value[at], part));
  }
  if ("n" in tree) return typeof value === "number" && Object.is(value, Number(tree.n));
  if (value === null || typeof value !== "object" || Array.isArray(value)) return false;
  return Object.keys(value).length === tree.o.length
    && tree.o.every(([key, part]) => Object.hasOwn(value, key) && same(value[key], part));
}

function answer(line) {
  const [hex, tree] = line.split("\t");
  let value;
  try {
    value = parse(hex);
  } catch {
    return "r";
  }
  if (tree === "") return "a";
  return same(value, JSON.parse(tree)) ? "s" : "d";
}

const lines = fs.readFileSync(0, "latin1").split("\n");
lines.pop();
fs.writeSync(1, lines.map((line) => answer(line) + "\n").join(""));
