// Opens pages in a browser, in light and in dark mode, and prints the findings of axe-core.
//
//     node axe.mjs BROWSER PAGES        PAGES has one URL per line
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import puppeteer from "puppeteer-core";

const [browserPath, list] = process.argv.slice(2);
const pages = readFileSync(list, "utf8").split("\n").filter(Boolean);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const browser = await puppeteer.launch({ executablePath: browserPath, args: ["--no-sandbox"] });
const page = await browser.newPage();
// The pages forbid scripts, and axe is one.
await page.setBypassCSP(true);
let looked = 0;
let findings = 0;
for (const [url, scheme] of pages.flatMap((url) => [[url, "light"], [url, "dark"]])) {
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  await page.goto(url, { waitUntil: "load" });
  // Collapsed parts are checked, too.
  await page.evaluate(() => document.querySelectorAll("details").forEach((own) => { own.open = true; }));
  await page.evaluate(axe);
  const found = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
  looked += 1;
  for (const violation of found.violations) {
    findings += 1;
    const where = violation.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join("\n    ");
    console.log(`${url} (${scheme}): ${violation.id}: ${violation.help}\n    ${where}`);
  }
}
await browser.close();
console.log(`axe: ${looked / 2} pages in light and dark, ${findings} findings`);
process.exit(findings === 0 && looked > 0 ? 0 : 1);
