// SPDX-License-Identifier: MIT OR Apache-2.0
// Opens a page of `piste report`, `piste latency` or `piste bench` in a browser: `node report.mjs PAGE [PICTURE]`. It must look as it was
// designed, and ask for nothing. PICTURE is drawn for the documentation (tools/pictures).
import { strict as assert } from "node:assert";
import { pathToFileURL } from "node:url";
import { launch } from "./chromium.mjs";

const [file, picture] = process.argv.slice(2);
const page = pathToFileURL(file).href;
const browser = await launch();
try {
	for (const [colorScheme, background] of [
		["light", "rgb(255, 255, 255)"],
		["dark", "rgb(24, 25, 27)"],
	]) {
		const tab = await browser.newPage({ viewport: { width: 1280, height: 800 }, colorScheme });
		const said = [];
		const asked = [];
		tab.on("console", (message) => said.push(message.text()));
		tab.on("pageerror", (error) => said.push(String(error)));
		tab.on("dialog", (dialog) => said.push(dialog.message()));
		tab.on("request", (request) => asked.push(request.url()));
		await tab.goto(page);
		const seen = await tab.evaluate(() => ({
			background: getComputedStyle(document.documentElement).backgroundColor,
			// Nothing is wider than the window.
			isWide: document.documentElement.scrollWidth > innerWidth,
			pictures: [...document.querySelectorAll("figure > svg")].map((svg) => svg.getBoundingClientRect().height),
			shapes: document.querySelectorAll("figure path, figure rect").length,
		}));
		assert.equal(seen.background, background);
		assert.equal(seen.isWide, false);
		assert.ok(seen.pictures.length > 0 && seen.pictures.every((height) => height > 40), JSON.stringify(seen));
		assert.ok(seen.shapes > 0, JSON.stringify(seen));
		assert.deepEqual([said, asked], [[], [page]]);
		if (picture && colorScheme === "light")
			await tab.screenshot({ path: picture, clip: { x: 0, y: 0, width: 1280, height: 1330 }, fullPage: true });
		await tab.close();
	}
	const printed = await browser.newPage();
	await printed.goto(page);
	assert.ok((await printed.pdf({ format: "A4" })).length > 1000);
} finally {
	await browser.close();
}
