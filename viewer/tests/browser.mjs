// SPDX-License-Identifier: MIT OR Apache-2.0
// Drives the viewer in chromium: `node browser.mjs SCENARIO ADDRESS`. The suite starts the server (tests/suite/tests/viewer.rs). Fails with the reason.
import assert from "node:assert/strict";
import { chromium } from "playwright-core";

const [scenario, address] = process.argv.slice(2);
const SHOTS = process.env.PISTE_SCREENSHOTS;

/** The colours on the canvas of the timeline, with how many pixels have each. */
const colours = (page) =>
	page.locator(".stage canvas").evaluate((canvas) => {
		const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
		const found = {};
		for (let at = 0; at < data.length; at += 4) {
			const colour = `${data[at]} ${data[at + 1]} ${data[at + 2]}`;
			found[colour] = (found[colour] ?? 0) + 1;
		}
		return found;
	});

/** Waits until something is so. */
async function until(what, condition) {
	for (let left = 600; left > 0; left--) {
		if (await condition()) return;
		await new Promise((resolve) => setTimeout(resolve, 50));
	}
	assert.fail(`waited 30 s until ${what}`);
}

const span = (page) => {
	const found = /[#&]span=(-?\d+)%2C(-?\d+)/.exec(page.url());
	return found ? { begin: Number(found[1]), end: Number(found[2]) } : null;
};

/** The timeline with lanes and something drawn. */
async function timeline(page, extra = "") {
	await page.goto(`${address}#page=timeline${extra}`);
	await page.locator(".name").first().waitFor();
	await until("lanes are drawn", async () => Object.keys(await colours(page)).length > 3);
}

async function shot(page, name) {
	if (SHOTS) await page.screenshot({ path: `${SHOTS}/${name}.png` });
}

const scenarios = {
	async insights(page) {
		await page.goto(address);
		const card = page.locator(".card").first();
		await card.waitFor();
		await shot(page, "insights");
		await card.click();
		await page.locator(".stage canvas").waitFor();
		assert.match(page.url(), /range=/);
		await page.locator(".details [role=tab]").first().waitFor();
		await page.locator(".details table").first().waitFor();
		await shot(page, "insight-opened");
		await page.goBack();
		await card.waitFor();
	},

	async timeline(page) {
		await timeline(page);
		assert.equal(await page.locator(".name .title").first().textContent(), "CPU 0 ");
		await shot(page, "timeline");
		// A thread that is looked for is the only one.
		await page.keyboard.press("/");
		await page.keyboard.type("python3");
		await until("lanes are filtered", async () => (await page.locator(".count").textContent()) !== "0 lanes");
		for (const title of await page.locator(".name .title").allInnerTexts()) assert.match(title, /python3/);
		await shot(page, "filtered");
	},

	async moves(page) {
		await timeline(page);
		await page.keyboard.press("w");
		await until("the address has the range", () => span(page) !== null);
		const zoomed = span(page);
		await page.keyboard.press("d");
		await until("it has moved", () => span(page).begin > zoomed.begin);
		const moved = span(page);
		assert.ok(Math.abs(moved.end - moved.begin - (zoomed.end - zoomed.begin)) <= 2);
		// A wheel's turn zooms, and the time under the pointer stays.
		const box = await page.locator(".stage canvas").boundingBox();
		await page.mouse.move(box.x + box.width / 4, box.y + 100);
		const place = moved.begin + (moved.end - moved.begin) / 4;
		await page.mouse.wheel(0, -500);
		await until("the wheel zooms", () => span(page).end - span(page).begin < (moved.end - moved.begin) * 0.9);
		const now = span(page);
		const stays = now.begin + (now.end - now.begin) / 4;
		assert.ok(Math.abs(stays - place) < (moved.end - moved.begin) / 100, `${stays} and ${place}`);
		// Back is undo.
		await page.goBack();
		await until("it is undone", () => span(page)?.begin === moved.begin);
		await page.keyboard.press("f");
		await until("everything is seen again", () => span(page).begin <= 0);
	},

	async selects(page) {
		await timeline(page, "&filter=python3");
		await until("the lanes are drawn", async () => (await page.locator(".name").count()) > 0);
		const box = await page.locator(".stage canvas").boundingBox();
		await page.mouse.click(box.x + box.width / 2, box.y + 26 + 8);
		const details = page.locator("section[aria-label=Selection]");
		await details.locator("dl").waitFor();
		await until("it has neighbours", async () => details.getByText("Next ▸").isEnabled());
		await shot(page, "selected");
		const link = page.url();
		const text = await details.locator("dl").textContent();
		// The same link shows the same.
		const other = await page.context().newPage();
		await other.goto(link);
		await other.locator("section[aria-label=Selection] dl").waitFor();
		assert.equal(await other.locator("section[aria-label=Selection] dl").textContent(), text);
		await other.close();
		await page.keyboard.press(".");
		await until("the next one is selected", async () => (await details.locator("dl").textContent()) !== text);
		await page.keyboard.press(",");
		await until("the one before is selected", async () => (await details.locator("dl").textContent()) === text);
		await page.keyboard.press("Enter");
		await page.locator(".name.inner").waitFor();
		await page.keyboard.press("Escape");
		await details.waitFor({ state: "detached" });
	},

	// From a wait to the thread that ended it.
	async wakers(page) {
		await timeline(page, "&filter=sleeper");
		await page
			.locator(".name .title", { hasText: /^sleeper/ })
			.first()
			.click();
		const details = page.locator("section[aria-label=Selection]");
		const ended = details.locator("button.link", { hasText: /^waker \(\d+\)$/ });
		for (let left = 50; left > 0 && (await ended.count()) === 0; left--) {
			await details.getByText("Next ▸").click();
			await page.waitForTimeout(50);
		}
		await ended.first().waitFor();
		await shot(page, "waker");
		await page.keyboard.press("[");
		await details.locator("h2", { hasText: /^waker/ }).waitFor();
	},

	async range(page) {
		await timeline(page);
		const box = await page.locator(".stage canvas").boundingBox();
		await page.keyboard.down("Shift");
		await page.mouse.move(box.x + 200, box.y + 200);
		await page.mouse.down();
		await page.mouse.move(box.x + 600, box.y + 210, { steps: 5 });
		await page.mouse.up();
		await page.keyboard.up("Shift");
		const details = page.locator("section[aria-label=Range]");
		await details.locator("td", { hasText: "python3" }).first().waitFor();
		await shot(page, "range");
		for (const tab of await details.locator("[role=tab]").all()) {
			await tab.click();
			await details.locator("table, p").first().waitFor();
			await details.getByText("Looking…").waitFor({ state: "detached" });
			assert.equal(await details.locator("[role=alert]").count(), 0, await details.textContent());
		}
		await page.keyboard.press("Escape");
		await details.waitFor({ state: "detached" });
	},

	// A trace of programs without the kernel.
	async programs(page) {
		await page.goto(address);
		await page.getByText("Insights need kernel events").waitFor();
		await page.locator(".wide").click();
		await page.locator(".name").first().waitFor();
		await until("lanes are drawn", async () => Object.keys(await colours(page)).length > 3);
		await shot(page, "programs");
		const canvas = await page.locator(".stage canvas").boundingBox();
		for (const name of await page.locator(".name").all()) {
			const box = await name.boundingBox();
			const y = Math.round(box.y - canvas.y + box.height / 2 - 2);
			const seen = await page.locator(".stage canvas").evaluate((canvas, y) => {
				const { data } = canvas.getContext("2d").getImageData(0, y, canvas.width, 1);
				return new Set(new Uint32Array(data.buffer)).size;
			}, y);
			assert.ok(seen > 1, `nothing is drawn for ${await name.textContent()}`);
		}
		const titles = await page.locator(".name .title").allInnerTexts();
		assert.ok(
			titles.some((title) => title.startsWith("thread ")),
			String(titles),
		);
		// A span, and an event, which takes no time.
		const details = page.locator("section[aria-label=Selection]");
		const first = async (title, kind) => {
			await page.locator(".name .title", { hasText: title }).first().click();
			await details.locator("h2", { hasText: kind }).waitFor();
			// What is in the middle of the trace, or beside it.
			const beside = details.locator("button:enabled", { hasText: /Previous|Next/ });
			await beside.first().click();
		};
		await first(/^thread .*spans$/, "spans");
		await details.locator("dd", { hasText: "work:round" }).waitFor();
		await details.getByText("Duration").waitFor();
		await first(/^events\s*$/, "events");
		await details.locator("dd", { hasText: "step:begin" }).waitFor();
		await details.getByText("At", { exact: true }).waitFor();
		await shot(page, "program-event");
	},

	// Names from a trace are text, whatever they look like.
	async markup(page) {
		await timeline(page, "&filter=%3Cimg");
		await until("lanes are filtered", async () => (await page.locator(".name").count()) === 1);
		assert.match(await page.locator(".name .title").textContent(), /^<img src=x> \d+/);
		const box = await page.locator(".stage canvas").boundingBox();
		await page.mouse.click(box.x + box.width / 2, box.y + 26 + 8);
		await page.locator("section[aria-label=Selection] dl").waitFor();
		assert.equal(await page.locator("img").count(), 0);
		await page.goto(`${address}#`);
		await page.locator(".card").first().waitFor();
		assert.equal(await page.locator("img").count(), 0);
	},

	async dark(page) {
		await page.emulateMedia({ colorScheme: "dark" });
		await timeline(page);
		const background = await page.evaluate(() => getComputedStyle(document.getElementById("viewer")).backgroundColor);
		assert.equal(background, "rgb(24, 25, 27)");
		await page.keyboard.press("?");
		await page.locator("dialog").waitFor();
		await shot(page, "dark-help");
		await page.keyboard.press("Escape");
		await shot(page, "dark");
	},
};

assert.ok(scenario in scenarios, `there is no scenario ${scenario}`);
const browser = await chromium.launch({
	executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
	args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"],
});
try {
	const [width, height] = (process.env.PISTE_WINDOW ?? "1280x800").split("x").map(Number);
	const context = await browser.newContext({ viewport: { width, height } });
	const page = await context.newPage();
	const complaints = [];
	page.on("pageerror", (error) => complaints.push(String(error)));
	page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
	page.on("request", (request) => {
		if (!request.url().startsWith(new URL(address).origin)) complaints.push(`asked for ${request.url()}`);
	});
	try {
		await scenarios[scenario](page);
	} catch (error) {
		await shot(page, `failed-${scenario}`);
		throw error;
	}
	assert.deepEqual(complaints, []);
} finally {
	await browser.close();
}
