// The HTTP endpoints of a Pharo image, implemented on Amber Smalltalk, which is not Pharo.
//
//     node image.mjs [--port 0]
//
// `image/Interop.st` is the Smalltalk that does the work: evaluation, reflection, test runs, settings, errors.
// This file has HTTP, JSON, files, and a generated screenshot.

import { Console } from "node:console";
import { createServer } from "node:http";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { startAmber } from "./amber.mjs";
import { picture } from "./picture.mjs";

const { values } = parseArgs({ options: { port: { type: "string", default: "0" } } });

// Only the line with the port goes to standard output. Amber's Transcript writes to the console.
globalThis.console = new Console(process.stderr);

const { image, globals, version } = await startAmber();
image._applySettings_({ screenshotDir: process.env.PHARO_SIS_SCREENSHOT_DIR || tmpdir() });

// A process that Smalltalk code forks may fail without ending the image.
process.removeAllListeners("uncaughtException").on("uncaughtException", (error) => console.error(error));
process.removeAllListeners("unhandledRejection").on("unhandledRejection", (error) => console.error(error));

const routes = {
  "POST /eval": ({ code }) => image._evaluate_(code),
  "GET /get-class-source": (given) => image._sourceOf_(need(given, "class_name")),
  "GET /get-method-source": (given) =>
    image._sourceOf_in_isClassSide_(need(given, "method_name"), need(given, "class_name"), given.is_class_method === "true"),
  "GET /get-class-comment": (given) => image._commentOf_(need(given, "class_name")),
  "GET /search-classes-like": (given) => image._classesLike_(need(given, "class_name_query")),
  "GET /search-methods-like": (given) => image._methodsLike_(need(given, "method_name_query")),
  "GET /search-traits-like": (given) => image._traitsLike_(need(given, "trait_name_query")),
  "GET /search-implementors": (given) => image._implementorsOf_(need(given, "method_name")),
  "GET /search-references": (given) => image._referencesTo_(need(given, "program_symbol")),
  "GET /search-references-to-class": (given) => image._referencesToClass_(need(given, "class_name")),
  "GET /list-packages": () => image._packageNames(),
  "GET /list-classes": (given) => image._classesIn_(need(given, "package_name")),
  "GET /list-extended-classes": (given) => image._extendedClassesIn_(need(given, "package_name")),
  "GET /list-methods": (given) => image._methodsIn_(need(given, "package_name")),
  "GET /export-package": (given) => exportPackage(need(given, "package_name"), given.path ?? "/tmp"),
  "GET /import-package": (given) => importPackage(need(given, "package_name"), given.path ?? "/tmp"),
  "GET /install-project": (given) =>
    installProject(need(given, "project_name"), need(given, "repository_url"), given.load_groups),
  "GET /run-package-test": (given) => image._runPackageTest_(need(given, "package_name")),
  "GET /run-class-test": (given) => image._runClassTest_(need(given, "class_name")),
  "GET /read-screen": (given) => readScreen(given.target_type ?? "world", given.capture_screenshot !== "false"),
  "GET /get-settings": () => image._settings(),
  "POST /apply-settings": ({ settings }) => image._applySettings_(settings),
};

function need(given, name) {
  return given[name] ?? image._error_(`The parameter ${name} is missing`);
}

/** Pharo writes a Tonel folder. Here it is one chunk file of Amber's own exporter. */
function exportPackage(name, path) {
  const chunks = image._chunksOf_(name);
  mkdirSync(path, { recursive: true });
  writeFileSync(chunkFile(path, name), chunks);
  return `${name} exported to: ${resolve(path)}`;
}

function importPackage(name, path) {
  image._loadChunks_(readFileSync(chunkFile(path, name), "utf8"));
  return `${name} imported from: ${resolve(path)}`;
}

function chunkFile(path, name) {
  if (/[/\\]/.test(name)) image._error_(`${name} is no name of a package`);
  return join(path, `${name}.st`);
}

/** There is no Metacello. A local folder is a repository; its groups are the packages `Project-Group`. */
function installProject(project, url, groups) {
  if (!url.startsWith("file://")) {
    image._error_(`There is no Metacello in Amber: cannot load ${project} from ${url}. Only file:///a/folder is a repository here`);
  }
  const names = [project, ...(groups ? groups.split(",").map((group) => `${project}-${group.trim()}`) : [])];
  for (const name of names) importPackage(name, fileURLToPath(url));
  return `Installed: ${names.join(", ")}`;
}

let pictures = 0;

/** The morphs are Smalltalk objects. Their screenshot is drawn here. */
function readScreen(target, isCaptured) {
  const screen = image._screenOf_(target);
  if (isCaptured) {
    const path = join(image._screenshotDir(), `amber-world-${process.pid}-${++pictures}.png`);
    const morphs = image._world().map((morph) => image._valueOf_(morph._asStructure()));
    writeFileSync(path, picture(morphs, `drawn by the double on Amber ${version}, no screen of Pharo`));
    screen._at_put_("screenshot", path);
  }
  return screen;
}

async function answer(path, work) {
  let value;
  try {
    value = await work();
  } catch (error) {
    return { success: false, error: image._valueOf_(image._errorFor_(error)) };
  }
  try {
    return { success: true, result: image._valueOf_(value) };
  } catch (error) {
    if (!globals.Smalltalk._asSmalltalkException_(error)._isKindOf_(globals.InteropUnmapped)) {
      return { success: false, error: image._valueOf_(image._errorFor_(error)) };
    }
    const { description, suggestion } = image._valueOf_(image._unmapped_(error));
    return path === "/eval" ? { success: true, error: { description, suggestion } } : { success: false, error: { description } };
  }
}

async function textOf(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  return Buffer.concat(parts).toString("utf8");
}

const server = createServer(async (request, response) => {
  const url = new URL(request.url, "http://image");
  const route = routes[`${request.method} ${url.pathname}`];
  const body = await textOf(request);
  if (!route) {
    response.writeHead(404, { "content-type": "text/plain" }).end("Not found");
    return;
  }
  const given = () => (request.method === "POST" ? JSON.parse(body) ?? {} : Object.fromEntries(url.searchParams));
  const said = JSON.stringify(await answer(url.pathname, () => route(given())));
  response.writeHead(200, { "content-type": "application/json;charset=utf-8" }).end(said);
});

server.listen(Number(values.port), "127.0.0.1", () => {
  process.stdout.write(`${JSON.stringify({ port: server.address().port, image: `Amber ${version}, not Pharo` })}\n`);
});
