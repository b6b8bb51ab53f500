// Loads Amber into this process, and our packages into Amber.

import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const require = createRequire(import.meta.url);
const lang = join(here, "node_modules/@ambers/lang");

// In dependency order.
const packages = ["Interop", "Lodge", "Lodge-Tests"];

/** Returns the interop object and the version of Amber. */
export async function startAmber() {
  const requirejs = require("requirejs");
  requirejs.config({ paths: { amber: `${lang}/base`, "amber/core": `${lang}/src` }, nodeRequire: require });
  const amber = await new Promise((resolve, reject) => {
    requirejs(["amber/devel", "amber/core/Platform-Node"], resolve, reject);
  });
  await amber.initialize();
  const { Importer, Smalltalk } = amber.globals;
  for (const name of packages) {
    Importer._new()._import_(readFileSync(join(here, `image/${name}.st`), "utf8")._readStream());
  }
  return { image: amber.globals.InteropImage._new(), globals: amber.globals, version: Smalltalk._version() };
}
