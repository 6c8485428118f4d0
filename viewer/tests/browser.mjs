// SPDX-License-Identifier: MIT OR Apache-2.0
// Drives the viewer in chromium, which starts once for many scenarios. Each line of standard input is one to run,
// `{"scenario": "moves", "address": "http://..."}`, and a line of standard output says how it ended: `null`, or why it failed. The suite starts
// the servers (tests/suite/tests/viewer.rs); `expected` is what a scenario needs of it.
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { causes } from "./causes.mjs";
import { launch } from "./chromium.mjs";
import { compare } from "./compare.mjs";
import { flames } from "./flame.mjs";
import { hostile } from "./hostile.mjs";
import { many } from "./many.mjs";
import { processes } from "./processes.mjs";

const SHOTS = process.env.PISTE_SCREENSHOTS;

/** Of the server that the scenario is about. */
let address;

/** In the page: pixels of the canvas of the timeline, which a worker draws. */
function readers() {
	window.pixelsOf = (canvas, ...place) => {
		const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d");
		copy.drawImage(canvas, 0, 0);
		return copy.getImageData(...place);
	};
}

/** The colours on the canvas of the timeline, with how many pixels have each. */
const colours = (page) =>
	page.locator(".stage canvas").evaluate((canvas) => {
		const { data } = pixelsOf(canvas, 0, 0, canvas.width, canvas.height);
		const pixels = new Uint32Array(data.buffer);
		const counts = new Map();
		// Neighbours mostly have the same colour.
		for (let begin = 0, at = 1; at <= pixels.length; at++) {
			if (pixels[at] === pixels[begin]) continue;
			// Red is the lowest byte, and how opaque a pixel is the highest.
			const colour = pixels[begin] & 0xffffff;
			counts.set(colour, (counts.get(colour) ?? 0) + at - begin);
			begin = at;
		}
		const named = ([colour, count]) => [`${colour & 255} ${(colour >> 8) & 255} ${colour >> 16}`, count];
		return Object.fromEntries([...counts].map(named));
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

/** Writes a text into an editor instead of what is there; all at once, as from an input method: the page is painted once, not after each key. */
async function write(editor, text) {
	await editor.click();
	await editor.press("Control+a");
	await editor.page().keyboard.insertText(text);
}

async function shot(page, name) {
	if (SHOTS) await page.screenshot({ path: `${SHOTS}/${name}.png` });
}

/** The lane of a thread that another one creates, and when it begins, from the beginning of the recording. */
const threadOf = (page, name) =>
	page.evaluate(async (name) => {
		const [{ begin_ns }] = await (await fetch("api/recordings")).json();
		for (;;) {
			const { lanes } = await (await fetch("api/0/lanes")).json();
			const lane = lanes.find((lane) => lane.name === name && lane.created_ns);
			if (lane) return { lane, at: Number(BigInt(lane.first_ns) - BigInt(begin_ns)) };
			await new Promise((resolve) => setTimeout(resolve, 200));
		}
	}, name);

/** The lane and time that are selected. */
const selection = (page) => {
	const found = /[#&]selected=(\d+)%2C(-?\d+)/.exec(page.url());
	return found ? { lane: Number(found[1]), at: Number(found[2]) } : null;
};

/** The result of the query that is shown, as a plot: system calls by time, with their durations. */
async function plots(page) {
	// Roles and labels are looked for where the list of tables is not: it has thousands of elements.
	const sheet = page.locator(".sheet");
	const cells = (column) => page.locator(`.scroll tbody td:nth-child(${column})`).allInnerTexts();
	const durations = (await cells(2)).map((text) => text.trim());
	await sheet.getByRole("tab", { name: "Plot" }).click();
	const plot = sheet.getByRole("slider", { name: /^Plot of duration_ns over begin_ns, 7 points/ });
	await plot.locator("canvas").waitFor();
	assert.match(page.url(), /[#&]result=plot/);
	const drawn = await plot.locator("canvas").evaluate((canvas) => {
		const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
		let found = 0;
		for (let at = 0; at < data.length; at += 4) {
			if (data[at] === 0 && data[at + 1] === 114 && data[at + 2] === 178) found++;
		}
		return found;
	});
	assert.ok(drawn > 100, `${drawn} pixels have the colour of the series`);
	// By keyboard, from point to point: the legend says what is there.
	const legend = page.locator(".plot-legend label:has(input)", { hasText: "duration_ns" }).locator("output");
	await plot.focus();
	for (const duration of durations.slice(0, 3)) {
		await page.keyboard.press("ArrowRight");
		await until("the legend has the value", async () => (await legend.textContent()) === duration);
	}
	const said = await plot.getAttribute("aria-valuetext");
	assert.match(said, /^\+0\.\d{9} s, duration_ns \S+ \S+$/);
	await shot(page, "sql-plot");
	// The same link shows the same, also of another axis.
	await sheet.getByLabel("x axis").selectOption("name");
	await sheet.getByRole("slider", { name: /over name/ }).waitFor();
	await sheet.getByRole("checkbox", { name: "tid" }).check();
	await until("both are drawn", () => /[#&]plotted=duration_ns%2Ctid/.test(page.url()));
	await shot(page, "sql-bars");
	const other = await page.context().newPage();
	await other.goto(page.url());
	await other
		.locator(".sheet")
		.getByRole("slider", { name: /^Plot of duration_ns, tid over name, 7 points/ })
		.waitFor();
	await other.close();
	await sheet.getByLabel("x axis").selectOption("begin_ns");
	await plot.waitFor();
	// A part of it, by dragging, and all of it again.
	const over = plot.locator(".u-over");
	const box = await over.boundingBox();
	const drag = async (from, to) => {
		await page.mouse.move(box.x + box.width * from, box.y + 20);
		await page.mouse.down();
		await page.mouse.move(box.x + box.width * to, box.y + 20, { steps: 4 });
		await page.mouse.up();
	};
	const all = sheet.getByRole("button", { name: "Show all" });
	await drag(0.01, 0.6);
	await all.waitFor();
	await page.mouse.dblclick(box.x + box.width / 2, box.y + 4);
	await all.waitFor({ state: "detached" });
	await drag(0.01, 0.6);
	await all.click();
	await all.waitFor({ state: "detached" });
	await plot.focus();
	await page.keyboard.press("+");
	await all.waitFor();
	await page.keyboard.press("Escape");
	await all.waitFor({ state: "detached" });
	// The point at the cursor, with a click: where its system call is in the timeline.
	await page.keyboard.press("Home");
	const point = plot.locator(".u-cursor-pt").first();
	await until("the first point is marked", async () => (await legend.textContent()) === durations[0]);
	const dot = await point.boundingBox();
	await page.mouse.click(dot.x + dot.width / 2, dot.y + dot.height / 2);
	await page.locator("section[aria-label=Selection] dl").waitFor();
	assert.match(page.url(), /selected=/);
	await page.goBack();
	await plot.waitFor();
}

/** Questions that the server refuses, as a scenario wants: the browser complains about each. */
let refusals = 0;

const scenarios = {
	...causes,
	...compare,
	...flames,
	...hostile,
	...processes,
	...many,

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
		await details.locator("dt", { hasText: "Wakes next" }).waitFor();
		await shot(page, "selected");
		const link = page.url();
		const text = await details.locator("dl").textContent();
		// The same link shows the same.
		const other = await page.context().newPage();
		await other.goto(link);
		// What it wakes next comes later than the rest.
		const others = other.locator("section[aria-label=Selection] dl");
		await until("the link shows the same", async () => (await others.textContent()) === text);
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
		// What is clicked is selected in the middle of the view, where the thread has to live: a busy machine records for a while after its end.
		await page.goto(address);
		const { at } = await threadOf(page, "sleeper");
		await timeline(page, `&filter=sleeper&span=${at},${at + 200_000_000}`);
		await page
			.locator(".name .title", { hasText: /^sleeper/ })
			.first()
			.click();
		const details = page.locator("section[aria-label=Selection]");
		const shownOf = (term) => details.locator("dt", { hasText: term }).locator("+ dd");
		const ended = shownOf("Ended by").locator("button.link", { hasText: /^waker \(\d+\)$/ });
		// Other values of a piece may come later than where it begins.
		const begin = shownOf(/^From$/);
		for (let left = 50; left > 0 && (await ended.count()) === 0; left--) {
			const before = await begin.textContent();
			await details.getByText("Next ▸").click();
			await until("the next piece is shown", async () => (await begin.textContent()) !== before);
		}
		await ended.waitFor();
		await shot(page, "waker");
		await page.keyboard.press("[");
		await details.locator("h2", { hasText: /^waker/ }).waitFor();
	},

	// From a thread's first piece to the thread that created it.
	async creators(page) {
		await page.goto(address);
		const { lane, at } = await threadOf(page, "sleeper");
		const around = `&span=${at - 3_000_000},${at + 3_000_000}&pinned=${lane.created_by},${lane.id}`;
		await timeline(page, `${around}&selected=${lane.id},${at}`);
		const details = page.locator("section[aria-label=Selection]");
		await details.locator("dt", { hasText: "Created by" }).waitFor();
		await details
			.locator("dt", { hasText: "Created by" })
			.locator("+ dd", { hasText: /^python3/ })
			.waitFor();
		// The arrow begins with a dot in the lane of the one that created it.
		const box = await page.locator(".stage canvas").boundingBox();
		const rows = await page
			.locator(".name")
			.evaluateAll((names) => names.slice(0, 2).map((name) => name.getBoundingClientRect().top));
		const isDark = (y) =>
			page.locator(".stage canvas").evaluate(
				(canvas, [x, y]) => {
					const { data } = pixelsOf(canvas, x, y, 1, 1);
					return data[0] + data[1] + data[2] < 60;
				},
				[Math.round(box.width / 2), Math.round(y)],
			);
		await until("the arrow is drawn", () => isDark(rows[0] - box.y + 8));
		await shot(page, "creator");
		// A picture that is saved has it, too: from the middle of the one lane to the middle of the other.
		await page.keyboard.press("x");
		const dialog = page.getByRole("dialog", { name: "Export" });
		const [saved] = await Promise.all([page.waitForEvent("download"), dialog.getByText("Save as SVG").click()]);
		const [arrow] = await page.evaluate(
			(svg) =>
				[...new DOMParser().parseFromString(svg, "image/svg+xml").querySelectorAll("#arrows circle")].map((dot) => ({
					dot: ["cx", "cy"].map((name) => Number(dot.getAttribute(name))),
					shaft: dot.parentElement.children[0].getAttribute("d"),
					head: dot.parentElement.children[1].getAttribute("d"),
				})),
			readFileSync(await saved.path(), "utf8"),
		);
		const [from, to] = rows.map((top) => top - box.y + 8);
		assert.ok(Math.abs(arrow.dot[0] - box.width / 2) < 1 && arrow.dot[1] === from, JSON.stringify(arrow));
		assert.equal(arrow.shaft, `M${arrow.dot[0]} ${from}V${to - 6}`);
		assert.ok(arrow.head.startsWith(`M${arrow.dot[0]} ${to}L`), arrow.head);
		await dialog.getByText("Close").click();
		await page.keyboard.press("[");
		await details.locator("h2", { hasText: /^python3/ }).waitFor();
	},

	async groups(page) {
		await timeline(page);
		const headings = page.locator(".heading");
		const titles = () => page.locator(".name .title").allInnerTexts();
		const interrupts = headings.filter({ hasText: "Interrupts" });
		// As tall as is needed to see all rows: only those in the window are there.
		await page.setViewportSize({ width: 1280, height: 4000 });
		await interrupts.waitFor();
		await shot(page, "groups");
		assert.match(await interrupts.textContent(), /\d %/);
		const before = (await titles()).length;
		await interrupts.locator(".title").click();
		await until("its lanes are gone", async () => (await titles()).length < before);
		assert.match(page.url(), /closed=interrupts/);
		// The same link shows the same.
		const other = await page.context().newPage();
		await other.setViewportSize({ width: 1280, height: 4000 });
		await other.goto(page.url());
		await until("the link shows the same", async () => {
			const others = await other.locator(".name .title").allInnerTexts();
			return others.join() === (await titles()).join();
		});
		await other.close();
		await page.keyboard.press("Escape");
		// By keyboard: a menu, a choice, back.
		await page.keyboard.press("g");
		await page.locator(".lanes-menu select").first().waitFor();
		await shot(page, "lanes-menu");
		await page.getByLabel("Group by").selectOption("none");
		await until("there are no headings", async () => (await headings.count()) === 0);
		await page.getByLabel("Order by").selectOption("name");
		await until("lanes are in the order of their names", async () => {
			const names = (await titles()).filter((title) => /^(python3|sleeper|waker) /.test(title));
			return names.length > 2 && names.join() === names.toSorted().join();
		});
		await page.getByLabel("Row height").selectOption("tall");
		const height = async () => (await page.locator(".name").first().boundingBox()).height;
		await until("rows are taller", async () => (await height()) > 30);
		await page.keyboard.press("Escape");
		await page.locator(".lanes-menu select").first().waitFor({ state: "hidden" });
		await shot(page, "tall");
		// A lane is hidden, and shown again.
		const sleeper = page.locator(".name .title", { hasText: /^sleeper/ });
		await sleeper.first().click();
		await page.keyboard.press("h");
		await sleeper.first().waitFor({ state: "detached" });
		assert.match(page.url(), /hidden=\d/);
		await page.getByText("1 hidden").waitFor();
		await page.keyboard.press("g");
		await page.getByRole("button", { name: "Show hidden lanes" }).click();
		await sleeper.first().waitFor();
		await page.getByLabel("Group by").selectOption("user");
		await headings.filter({ hasText: "root" }).waitFor();
	},

	// Threads as lines, and where a CPU goes from one of them to another.
	async flow(page) {
		await page.goto(address);
		// Of those that want the same CPU, one gives it to another; somewhere in the middle.
		const { lanes, at } = await page.evaluate(async () => {
			for (;;) {
				const [{ state, begin_ns }] = await (await fetch("api/recordings")).json();
				if (state === "whole") {
					const { lanes } = await (await fetch("api/0/lanes")).json();
					const threads = lanes.filter(({ kind, busy_ns }) => kind === "thread" && BigInt(busy_ns) > 50_000_000n);
					const tids = threads.map(({ tid }) => tid).join();
					const sql = `SELECT time_ns, prev_tid, next_tid FROM sched_switch WHERE prev_tid IN (${tids}) AND next_tid IN (${tids}) ORDER BY time_ns`;
					const { rows } = await (await fetch("api/0/query?limit=1000", { method: "POST", body: sql })).json();
					const [ns, ...meant] = rows[Math.floor(rows.length / 2)];
					const ids = meant.map((tid) => threads.find((thread) => thread.tid === Number(tid)).id);
					return { lanes: ids, at: Number(BigInt(ns) - BigInt(begin_ns)) };
				}
				await new Promise((resolve) => setTimeout(resolve, 200));
			}
		});
		await timeline(page, `&span=${at - 1_000_000},${at + 1_000_000}&pinned=${lanes}`);
		const canvas = page.locator(".stage canvas");
		/** Columns of pixels in which the gap between the lines of the first two lanes is crossed by something dark. */
		const crossed = () =>
			canvas.evaluate((canvas) => {
				const { data, width } = pixelsOf(canvas, 0, 26 + 14, canvas.width, 1);
				let found = 0;
				for (let x = 0; x < width; x++) if (data[4 * x] + data[4 * x + 1] + data[4 * x + 2] < 120) found++;
				return found;
			});
		await page.keyboard.press("v");
		await until("the CPU goes from one to another", async () => (await crossed()) > 0);
		assert.ok((await crossed()) < 200, "these are no lines");
		assert.match(page.url(), /view=flow/);
		await shot(page, "flow");
		// Closer, an icon shows what the first thread does from then on, and so does a picture that is saved.
		await timeline(page, `&view=flow&span=${at - 50_000},${at + 50_000}&pinned=${lanes}`);
		const dark = () =>
			canvas.evaluate((canvas) => {
				const { data } = pixelsOf(canvas, canvas.width / 2 + 2, 26, 12, 16);
				let found = 0;
				for (let at = 0; at < data.length; at += 4) if (data[at] + data[at + 1] + data[at + 2] < 120) found++;
				return found;
			});
		await until("the icon is drawn", async () => (await dark()) > 10);
		await shot(page, "flow-icons");
		await page.keyboard.press("x");
		const dialog = page.getByRole("dialog", { name: "Export" });
		const [saved] = await Promise.all([page.waitForEvent("download"), dialog.getByText("Save as SVG").click()]);
		const { icons, legend } = await page.evaluate(
			(svg) => {
				const found = new DOMParser().parseFromString(svg, "image/svg+xml");
				const places = [...found.querySelectorAll("#icons path")].map((icon) => icon.getAttribute("transform"));
				return { icons: places, legend: found.querySelector("#legend").textContent };
			},
			readFileSync(await saved.path(), "utf8"),
		);
		const middle = Math.round((await canvas.boundingBox()).width / 2) + 2;
		assert.ok(icons.includes(`translate(${middle} 29)`), `${icons}`);
		assert.match(legend, /calls the kernel/);
		await dialog.getByText("Close").click();
		await page.keyboard.press("v");
		await until("they are bars again", async () => !/view=/.test(page.url()));
	},

	// A trace with packets and frequencies (tests/suite/tests/viewer.rs).
	async counters(page) {
		await timeline(page);
		await shot(page, "counters");
		const canvas = page.locator(".stage canvas");
		const details = page.locator("section[aria-label=Selection]");
		const row = (name) => page.locator(".name", { has: page.locator(".title", { hasText: name }) }).first();
		/** How high the area of a lane is in each column of pixels. */
		const heights = async (name, colour) => {
			const [box, own] = [await canvas.boundingBox(), await row(name).boundingBox()];
			return canvas.evaluate(
				(canvas, { top, height, colour }) => {
					const { data, width } = pixelsOf(canvas, 0, top, canvas.width, height);
					const found = new Array(width).fill(0);
					for (let at = 0; at < width * height; at++) {
						const isOwn = colour.every((part, index) => data[4 * at + index] === part);
						if (isOwn) found[at % width]++;
					}
					return found;
				},
				{ top: Math.round(own.y - box.y), height: Math.round(own.height), colour },
			);
		};
		const areDrawn = async (name, colour, least) => {
			const found = await heights(name, colour);
			return found.filter((height) => height > least).length > 900;
		};
		const [queued, frequency] = [/^eth0 queued/, /^Frequency/];
		await until("the area is drawn", () => areDrawn(queued, [190, 92, 20], 0));
		assert.ok(new Set(await heights(queued, [190, 92, 20])).size > 5, "the area is flat");
		await until("the frequency is drawn", () => areDrawn(frequency, [126, 98, 178], 5));
		// The tooltip has the rate.
		const box = await canvas.boundingBox();
		const over = async (name) => {
			const own = await row(name).boundingBox();
			await page.mouse.move(box.x + 500, own.y + own.height / 2);
		};
		await over(/^eth0 received/);
		await page.locator(".tip", { hasText: /iB\/s.*packets? within/ }).waitFor();
		await over(/^Frequency/);
		await page.locator(".tip", { hasText: /GHz.*from \d.* to / }).waitFor();
		await shot(page, "counters-tip");
		// A packet, from the lane's name and its neighbours.
		await row(/^eth0 queued/)
			.locator(".title")
			.click();
		await details.getByText("Next ▸").click();
		await details.locator("dt", { hasText: "Size" }).waitFor();
		const at = Number(/selected=\d+%2C(\d+)/.exec(page.url())[1]);
		await timeline(page, `${page.url().split("page=timeline")[1]}&span=${at - 200_000},${at + 200_000}`);
		await page.mouse.move(box.x + box.width / 2, (await row(/^eth0 queued/).boundingBox()).y + 20);
		const size = (await details.locator("dd").first().textContent()).split(" (")[0];
		await page.locator(".tip", { hasText: size }).waitFor();
		await shot(page, "packets");
		await row(/^Frequency/)
			.locator(".title")
			.click();
		await details.locator("dd", { hasText: /Hz/ }).first().waitFor();
		// What a range has in all.
		await timeline(page, "&range=100000000,300000000");
		await page.getByRole("tab", { name: "Numbers" }).click();
		const sums = page.locator("section[aria-label=Range] tr");
		await sums.filter({ hasText: /^eth0 received\d.*MiB\/s/ }).waitFor();
		await sums.filter({ hasText: /^CPU 1 frequency.*GHz/ }).waitFor();
		await shot(page, "numbers");
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
		// There is nothing to draw a flame graph of.
		refusals = 1;
		for (const tab of await details.locator("[role=tab]").all()) {
			await tab.click();
			await details.locator("table, p").first().waitFor();
			await details.getByText("Reading the trace…").waitFor({ state: "detached" });
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
				const { data } = pixelsOf(canvas, 0, y, canvas.width, 1);
				return new Set(new Uint32Array(data.buffer)).size;
			}, y);
			assert.ok(seen > 1, `nothing is drawn for ${await name.textContent()}`);
		}
		const titles = await page.locator(".name .title").allInnerTexts();
		assert.ok(
			titles.some((title) => title.startsWith("Thread ")),
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
		await first(/^Thread .*spans$/, "spans");
		await details.locator("dd", { hasText: "work:round" }).waitFor();
		await details.getByText("Duration", { exact: true }).waitFor();
		await first(/^Events\s*$/, "events");
		await details.locator("dd", { hasText: "step:begin" }).waitFor();
		await details.getByText("At", { exact: true }).waitFor();
		await shot(page, "program-event");
	},

	async sql(page) {
		await page.goto(`${address}#page=sql`);
		await page.locator(".examples .card").first().waitFor();
		const [side, sheet] = [page.locator(".side"), page.locator(".sheet")];
		await side.locator("summary", { hasText: /^syscalls$/ }).waitFor();
		await shot(page, "sql-examples");
		await side.locator("[aria-label='Filter tables and columns']").fill("by_comm");
		assert.deepEqual(await side.locator("summary").allInnerTexts(), ["cpu_waits"]);
		await side.locator("[aria-label='Filter tables and columns']").fill("");
		await side.locator("summary", { hasText: /^syscalls$/ }).click();
		await side.locator("details[open] .insert", { hasText: "duration_ns" }).waitFor();
		const editor = page.locator(".editor .cm-content");
		const sql =
			"SELECT begin_ns, duration_ns, name, comm, tid FROM syscalls WHERE comm = 'python3' ORDER BY begin_ns LIMIT 7";
		await write(editor, sql);
		await editor.press("Control+Enter");
		const rows = page.locator(".scroll tbody tr");
		await until("there are rows", async () => (await rows.count()) === 7);
		const status = sheet.locator("> .bar > [role=status]");
		assert.match(await status.textContent(), /^7 rows in /);
		assert.match(page.url(), /[#&]sql=SELECT/);
		await shot(page, "sql");
		const table = await page.locator(".scroll table").textContent();
		// The same link shows the same.
		const other = await page.context().newPage();
		await other.goto(page.url());
		await other.locator(".scroll tbody tr").first().waitFor();
		assert.equal(await other.locator(".scroll table").textContent(), table);
		await other.close();
		// Numbers sort as numbers, the largest first.
		await page.locator("th", { hasText: "duration" }).getByRole("button").click();
		assert.equal(await page.locator("th[aria-sort=descending]").textContent(), "duration_ns ▾");
		// A time leads to the system call in the timeline, and back.
		await rows.first().locator("button").first().click();
		await page.locator("section[aria-label=Selection] dl").waitFor();
		assert.match(page.url(), /selected=/);
		await shot(page, "sql-opened");
		await page.goBack();
		await until("the rows are there again", async () => (await rows.count()) === 7);
		await plots(page);
		await sheet.getByRole("tab", { name: "Table", exact: true }).click();
		// More rows than are shown.
		await write(editor, "SELECT time_ns, name FROM events");
		await sheet.locator("> .bar").getByRole("button", { name: "Run" }).click();
		await status.filter({ hasText: /^The first 1,000 rows in .*; there are more$/ }).waitFor();
		// What `piste query` says about a mistake, and what is not allowed.
		for (const [wrong, said] of [
			["SELECT nothing FROM syscalls", /there is no column "nothing"/],
			["SET datafusion.execution.batch_size = 1", /only statements that read data are allowed/],
			["COPY (SELECT 1) TO '/tmp/piste-copied.csv'", /only statements that read data are allowed/],
		]) {
			await write(editor, wrong);
			await editor.press("Control+Enter");
			await page.locator(".scroll > .said", { hasText: said }).waitFor();
		}
		refusals = 3;
		await shot(page, "sql-refused");
		// A query that takes long can be given up.
		await write(editor, "SELECT count(*) FROM events a, events b, events c WHERE a.cpu + b.cpu + c.cpu = 7");
		await editor.press("Control+Enter");
		await sheet.getByText(/^running for \d+ s reading: \d+ %$/).waitFor();
		await sheet.getByRole("progressbar", { name: "reading" }).waitFor();
		await shot(page, "sql-running");
		await sheet.getByRole("button", { name: "Cancel" }).click();
		await sheet.getByText("cancelled after").waitFor();
		// What was typed stays while another page is shown.
		await write(editor, "SELECT 42");
		await page.locator("header").getByRole("button", { name: "Statistics" }).click();
		await editor.waitFor({ state: "detached" });
		await page.locator("header").getByRole("button", { name: "SQL" }).click();
		assert.equal(await editor.textContent(), "SELECT 42");
		await side.getByRole("tab", { name: "History" }).click();
		assert.equal(await side.locator(".history li").count(), 6);
		assert.equal(await side.locator(".history li").last().textContent(), sql);
		await shot(page, "sql-history");
	},

	async events(page) {
		await page.goto(`${address}#page=events`);
		const rows = page.locator(".events tbody tr");
		await rows.first().waitFor();
		await shot(page, "events");
		const first = await rows.first().textContent();
		const times = async () => {
			const texts = await page.locator(".events tbody td:first-child").allInnerTexts();
			return texts.map((text) => Number(text.replace(/[+ s]/g, "")));
		};
		const end = (await times()).at(-1);
		// Roles and labels are looked for where no table is: it has thousands of elements.
		const turning = page.locator(".sheet > .bar").nth(1);
		await turning.getByRole("button", { name: "Later" }).click();
		await until("later events are there", async () => (await times())[0] >= end && (await rows.count()) > 1);
		assert.match(page.url(), /[#&]at=/);
		await turning.getByRole("button", { name: "Earlier" }).click();
		await until(
			"the first ones are there",
			async () => (await rows.count()) > 0 && (await rows.first().textContent()) === first,
		);
		// A filter, and a mistake in one.
		const form = page.locator(".sheet > form");
		const editor = form.getByLabel("Filter events");
		await write(editor, 'name == "sched_switch" && prev_comm == "python3"');
		await page.keyboard.press("Enter");
		await until("events are filtered", async () =>
			/prev_comm=python3/.test(await rows.first().textContent({ timeout: 30_000 })),
		);
		for (const text of await page.locator(".events tbody td:nth-child(5)").allInnerTexts())
			assert.equal(text, "sched_switch");
		// What the trace has is proposed, and Tab takes it.
		const list = form.locator(".cm-tooltip-autocomplete");
		await write(editor, "na");
		await list.getByText("the event's name").waitFor();
		await editor.press("Tab");
		await page.keyboard.type(' == "sched_swi');
		await list.getByRole("option", { name: "sched_switch" }).waitFor();
		await shot(page, "events-completion");
		await editor.press("Tab");
		await page.keyboard.type('" && prev_c');
		await list.getByRole("option", { name: /^prev_comm/ }).waitFor();
		await editor.press("Escape");
		await list.waitFor({ state: "detached" });
		assert.equal(await editor.textContent(), 'name == "sched_switch" && prev_c');
		await write(editor, 'name == "sched_switch" && prev_comm == "python3"');
		await page.keyboard.press("Enter");
		await shot(page, "events-filtered");
		await rows.nth(1).locator("button").click();
		await page.locator("section[aria-label=Selection] dl").waitFor();
		await shot(page, "event-opened");
		await page.goBack();
		await rows.first().waitFor();
		await write(editor, "name ==");
		await page.keyboard.press("Enter");
		await page.locator(".said", { hasText: "the filter is invalid" }).waitFor();
		refusals = 1;
		await shot(page, "events-refused");
		// The events of a range of the timeline.
		await timeline(page, "&range=100000000,200000000");
		await page.locator("section[aria-label=Range]").getByRole("button", { name: "Events" }).click();
		await rows.first().waitFor();
		assert.ok((await times())[0] >= 0.1, `${(await times())[0]}`);
		await form.getByText("100.0 ms from").waitFor();
		await form.getByRole("button", { name: "Show the whole trace" }).click();
		await until("all events are there", async () => (await rows.count()) > 0 && (await times())[0] < 0.1);
	},

	async statistics(page) {
		await page.goto(`${address}#page=statistics`);
		const table = page.locator("table", { has: page.locator("caption", { hasText: "Threads" }) });
		await table.locator("td", { hasText: "python3" }).first().waitFor();
		await shot(page, "statistics");
		const column = () => table.locator("tbody td:nth-child(3)").allInnerTexts();
		const head = table.locator("th:nth-child(3)");
		await head.getByRole("button").click();
		assert.equal(await head.getAttribute("aria-sort"), "ascending");
		const sorted = await column();
		assert.deepEqual(
			sorted,
			sorted.toSorted((one, other) => one.localeCompare(other, "en", { numeric: true })),
		);
		await head.getByRole("button").click();
		assert.equal(await head.getAttribute("aria-sort"), "descending");
		await head.getByRole("button").click();
		assert.equal(await head.getAttribute("aria-sort"), "none");
		// Some need events that this trace does not have, and say so.
		refusals = 9;
		for (const tab of await page.getByRole("tab").all()) {
			await tab.click();
			await page.locator(".scroll > *").first().waitFor();
			await page.getByText("Reading the trace…").waitFor({ state: "detached" });
		}
		await page.getByRole("tab", { name: "System calls" }).click();
		await page.locator("td", { hasText: "openat" }).first().waitFor();
		assert.match(page.url(), /analysis=syscallstats/);
		await shot(page, "statistics-calls");
		await page.getByRole("tab", { name: "Threads by CPU time" }).click();
		await table.locator(".link").first().click();
		await page.locator(".name .pin[aria-pressed=true]").waitFor();
	},

	// A running session: the view follows what happens now, until it is moved.
	async live(page) {
		await timeline(page);
		const recorded = page.getByRole("status").getByText(/^● recording, /);
		await recorded.waitFor();
		const now = page.getByRole("button", { name: "Now" });
		const seen = () => page.locator(".stage canvas").getAttribute("aria-label");
		await now.click();
		assert.equal(await now.getAttribute("aria-pressed"), "true");
		assert.match(page.url(), /follow=1/);
		const first = await seen();
		await until("the view moves on", async () => (await seen()) !== first);
		await shot(page, "live");
		await page.keyboard.press("a");
		await until("it follows no more", async () => (await now.getAttribute("aria-pressed")) === "false");
		const [still, length] = [await seen(), await recorded.textContent()];
		await until("more is recorded", async () => (await recorded.textContent()) !== length);
		assert.equal(await seen(), still);
		await page.keyboard.press("l");
		await until("it follows again", async () => (await seen()) !== still);
	},

	// Names from a trace are text, whatever they look like.
	async markup(page) {
		await timeline(page, "&filter=%3Cimg");
		await until("lanes are filtered", async () => (await page.locator(".name").count()) === 1);
		assert.match(await page.locator(".name .title").textContent(), /^<img src=x> \d+/);
		const box = await page.locator(".stage canvas").boundingBox();
		await page.mouse.click(box.x + box.width / 2, box.y + 26 + 8);
		await page.locator("section[aria-label=Selection] dl").waitFor();
		assert.equal(await page.locator("img:not(.cm-widgetBuffer)").count(), 0);
		await page.goto(`${address}#`);
		await page.locator(".card").first().waitFor();
		assert.equal(await page.locator("img:not(.cm-widgetBuffer)").count(), 0);
		const sql = "SELECT comm, '<b>' AS \"<img src=x>\" FROM threads WHERE comm LIKE '<img%'";
		await page.goto(`${address}#page=sql&sql=${encodeURIComponent(sql)}`);
		await page.locator("td", { hasText: "<img src=x>" }).waitFor();
		await page.goto(`${address}#page=events&where=${encodeURIComponent('next_comm == "<img src=x>"')}`);
		await page.locator(".fields", { hasText: "next_comm=<img src=x>" }).first().waitFor();
		assert.equal(await page.locator("img:not(.cm-widgetBuffer)").count(), 0);
	},

	async search(page) {
		await timeline(page);
		const marks = () =>
			page.locator(".overview canvas").evaluate((canvas) => {
				const { data } = canvas.getContext("2d").getImageData(0, canvas.height - 2, canvas.width, 1);
				let count = 0;
				for (let at = 0; at < data.length; at += 4) {
					if (data[at] === 196 && data[at + 1] === 24 && data[at + 2] === 124) count++;
				}
				return count;
			});
		await page.keyboard.press("Control+f");
		const bar = page.locator("search");
		const box = bar.getByLabel("Search", { exact: true });
		const status = bar.getByRole("status");
		await box.fill("sys_openat");
		await until("something or nothing is found", async () => /found$/i.test(await status.textContent()));
		if (/Nothing/.test(await status.textContent())) await box.fill("openat");
		await until("calls are found", async () => /^[\d,]+ found$/.test(await status.textContent()));
		const found = Number((await status.textContent()).replace(/\D/g, ""));
		assert.ok(found > 10, `${found}`);
		await until("the overview has marks", async () => (await marks()) > 0);
		// From match to match in the order of time, and back the same way.
		const details = page.locator("section[aria-label=Selection]");
		const seen = [];
		for (let step = 0; step < 4; step++) {
			await box.press("Enter");
			await until("another one is selected", () => {
				const now = selection(page);
				return now && JSON.stringify(now) !== JSON.stringify(seen.at(-1));
			});
			await details.locator("dd", { hasText: "openat" }).waitFor();
			seen.push(selection(page));
		}
		assert.deepEqual(
			seen,
			seen.toSorted((one, other) => one.at - other.at || one.lane - other.lane),
		);
		const lanes = await page.locator(".names").boundingBox();
		await until("the lane is all in view", async () => {
			const lane = await page.locator(".name.selected").boundingBox();
			return lane && lane.y >= lanes.y + 26 && lane.y + lane.height <= lanes.y + lanes.height;
		});
		await shot(page, "search");
		for (const before of seen.slice(0, -1).reverse()) {
			await box.press("Shift+Enter");
			await until("the one before is selected", () => JSON.stringify(selection(page)) === JSON.stringify(before));
		}
		// Before the first one comes the last one, which is later than all; then it begins again.
		await box.press("Shift+Enter");
		await until("the last one is selected", () => selection(page).at > seen[3].at);
		await page.evaluate(() => document.activeElement.blur());
		await page.keyboard.press("n");
		await until("it begins again", () => JSON.stringify(selection(page)) === JSON.stringify(seen[0]));
		await bar.getByText("continued from the beginning").waitFor();
		// A thread on CPUs.
		await box.fill("python3");
		await until("the thread is found", async () => /^[\d,]+ found$/.test(await status.textContent()));
		await box.fill("no such name");
		await bar.getByText("Nothing found").waitFor();
		await until("there are no marks", async () => (await marks()) === 0);
		// Events by their fields.
		await bar.getByLabel("Search in").selectOption("fields");
		await write(box, 'name == "sched_switch" && prev_comm == "python3"');
		await box.press("Enter");
		await until("events are found", async () => /^(more than )?[\d,]+ found/.test(await status.textContent()));
		await until("the overview has marks of events", async () => (await marks()) > 0);
		const before = JSON.stringify(selection(page));
		await box.press("Enter");
		await until("an event is selected", () => JSON.stringify(selection(page)) !== before);
		await shot(page, "search-fields");
		// Part by part: what was found so far, and how far that is.
		await page.route(/\/events\?/, async (route) => {
			await new Promise((resolve) => setTimeout(resolve, 400));
			await route.continue();
		});
		await write(box, "$cpu > 1000000");
		await box.press("Enter");
		await bar.getByText(/^Nothing found in the first \d+ %, searching…$/).waitFor();
		await bar.getByText("Nothing found", { exact: true }).waitFor();
		await page.unroute(/\/events\?/);
		await write(box, "$cpu >= 0");
		await box.press("Enter");
		await bar.getByText(/^more than [\d,]+ found/).waitFor();
		await write(box, "name ==");
		await box.press("Enter");
		await bar.getByText("the filter is invalid").waitFor();
		refusals = 1;
		await box.press("Escape");
		await bar.waitFor({ state: "detached" });
		assert.doesNotMatch(page.url(), /find=/);
	},

	async notes(page) {
		const open = "&range=100000000,200000000";
		await timeline(page, open);
		// A second viewer, which has seen no notes.
		const other = await page.context().newPage();
		await other.goto(`${address}#page=timeline${open}`);
		await other.locator("section[aria-label=Range]").waitFor();
		const write = async (page, text) => {
			await page.keyboard.press("c");
			await page.getByLabel("Text of the note").fill(text);
			await page.keyboard.press("Control+Enter");
		};
		await write(page, "slow <b>here</b>\nsecond line");
		await page.locator("dialog").waitFor({ state: "detached" });
		await until("it has a flag on the axis", async () => (await colours(page))["138 63 252"] > 20);
		await shot(page, "note");
		// What the second viewer writes must not take the place of that.
		await write(other, "from elsewhere");
		await other.getByText("changed in another window").waitFor();
		assert.equal(await other.getByLabel("Text of the note").inputValue(), "from elsewhere");
		await until("it can be saved now", async () => {
			if ((await other.locator("dialog").count()) > 0) await other.keyboard.press("Control+Enter");
			await other.waitForTimeout(200);
			return (await other.locator("dialog").count()) === 0;
		});
		await other.close();
		await page.reload();
		await page.locator(".name").first().waitFor();
		await page.keyboard.press("Shift+C");
		const list = page.getByRole("dialog", { name: "Notes" });
		await until("both are there", async () => (await list.locator("li").count()) === 2);
		await shot(page, "notes");
		const texts = await list.locator(".jump span").allInnerTexts();
		assert.deepEqual(texts.sort(), ["from elsewhere", "slow <b>here</b>\nsecond line"]);
		// Change one, and jump to it.
		const mine = list.locator("li", { hasText: "slow" });
		await mine.getByRole("button", { name: "Edit" }).click();
		await page.getByLabel("Text of the note").fill("slower");
		await page.getByRole("button", { name: "Save" }).click();
		await page.locator("dialog").waitFor({ state: "detached" });
		await page.goto(`${address}#page=statistics`);
		await page.keyboard.press("Shift+C");
		await list.locator(".jump", { hasText: "slower" }).click();
		await page.locator("section[aria-label=Range]").waitFor();
		assert.match(page.url(), /range=100000000%2C200000000/);
		// A click on the flag opens it.
		const { begin, end } = span(page);
		const box = await page.locator(".stage canvas").boundingBox();
		await page.mouse.click(box.x + ((1e8 - begin) / (end - begin)) * box.width + 4, box.y + 4);
		await page.getByRole("button", { name: "Delete" }).click();
		await page.locator("dialog").waitFor({ state: "detached" });
		await page.keyboard.press("Shift+C");
		await until("one is left", async () => (await list.locator("li").count()) === 1);
		await list.getByRole("button", { name: "Delete" }).click();
		await list.getByText("There are no notes").waitFor();
		await page.keyboard.press("Escape");
		// Where nothing can be written, the page says so.
		const unwritable = { version: "0", notes: [], unwritable: "cannot write notes to /mnt: read-only file system" };
		await page.route("**/api/0/notes", (route) => route.fulfill({ json: unwritable }));
		await page.reload();
		await page.locator(".name").first().waitFor();
		await page.keyboard.press("c");
		await page.getByText("Cannot write notes to /mnt: read-only file system.").waitFor();
		await page.getByLabel("Text of the note").fill("lost");
		assert.ok(await page.getByRole("button", { name: "Save" }).isDisabled());
	},

	async exports(page) {
		await timeline(page);
		const names = await page.locator(".name .title").allInnerTexts();
		await page.keyboard.press("x");
		const dialog = page.getByRole("dialog", { name: "Export" });
		await dialog.waitFor();
		await shot(page, "export");
		const saved = async (name) => {
			const [download] = await Promise.all([page.waitForEvent("download"), dialog.getByText(name).click()]);
			return readFileSync(await download.path());
		};
		const png = await saved("Save as PNG");
		assert.equal(png.subarray(1, 4).toString(), "PNG");
		// All of the view, with the names beside it.
		const canvas = await page.locator(".stage canvas").boundingBox();
		assert.equal(png.readUInt32BE(16), canvas.width + 260);
		assert.ok(png.readUInt32BE(20) > canvas.height);
		const svg = (await saved("Save as SVG")).toString();
		const parsed = await page.evaluate((svg) => {
			const found = new DOMParser().parseFromString(svg, "image/svg+xml");
			return {
				broken: found.querySelector("parsererror")?.textContent,
				foreign: found.querySelectorAll("image, script, foreignObject").length,
				lanes: found.querySelectorAll("#lanes-drawn rect").length,
				fills: [...new Set([...found.querySelectorAll("#lanes-drawn rect")].map((one) => one.getAttribute("fill")))],
				names: [...found.querySelectorAll("#lane-names text")].map((one) => one.textContent),
				axis: found.querySelectorAll("#axis text").length,
				legend: found.querySelector("#legend").textContent,
			};
		}, svg);
		assert.equal(parsed.broken, undefined);
		assert.equal(parsed.foreign, 0);
		assert.ok(parsed.lanes > 100, `${parsed.lanes}`);
		assert.equal(parsed.names[0], names[0].trim());
		assert.ok(parsed.axis > 3);
		assert.match(parsed.legend, /waiting for a CPU/);
		// The same colours as on the canvas.
		const drawn = await colours(page);
		const missing = parsed.fills.filter((fill) => fill !== "url(#hatched)" && !drawn[fill.slice(4, -1)]);
		assert.deepEqual(missing, []);
		// A range as a trace, each time in a new folder.
		assert.ok(await dialog.getByText("Write trace").isDisabled());
		await dialog.getByText("Close").click();
		await timeline(page, "&range=100000000,200000000");
		await page.keyboard.press("x");
		const written = new Set();
		for (const count of [1, 2]) {
			await dialog.getByText("Write trace").click();
			await until("it is written", async () => {
				written.add(/^Wrote (\/.*-part\d+)$/.exec(await dialog.getByRole("status").textContent())?.[1]);
				written.delete(undefined);
				return written.size === count;
			});
		}
		for (const path of written) assert.ok(existsSync(path), path);
		// Perfetto's page, played by this one: the real one is on another machine.
		const site = `<title>waiting</title><script>
			addEventListener("message", (event) => {
				if (event.data === "PING") event.source.postMessage("PONG", event.origin);
				else if (event.data.perfetto) document.title = "got " + event.data.perfetto.buffer.byteLength;
			});
		</script>`;
		const asked = [];
		await page.context().route("https://ui.perfetto.dev/**", (route) => {
			asked.push(route.request().url());
			return route.fulfill({ contentType: "text/html", body: site });
		});
		await dialog.getByText("which is another website").waitFor();
		assert.deepEqual(asked, []);
		const [perfetto] = await Promise.all([
			page.waitForEvent("popup"),
			dialog.getByRole("button", { name: "Send to ui.perfetto.dev" }).click(),
		]);
		await until("it has the trace", async () => /^got \d{4,}$/.test(await perfetto.title()));
		await dialog.getByText("Sent.").waitFor();
		assert.equal(await perfetto.evaluate(() => window.opener), null);
		const [download] = await Promise.all([
			page.waitForEvent("download"),
			dialog.getByText("Save the file instead").click(),
		]);
		const file = readFileSync(await download.path());
		assert.equal(await perfetto.title(), `got ${file.length}`);
		await perfetto.close();
	},

	async palette(page) {
		await timeline(page);
		await page.keyboard.press("Control+Shift+P");
		const palette = page.getByRole("dialog", { name: "Commands" });
		const options = palette.getByRole("option");
		await options.first().waitFor();
		await shot(page, "palette");
		// It has what the help has, with the same keys.
		const all = await options.evaluateAll((all) =>
			all.map((one) => ({ what: one.firstChild.textContent, key: one.querySelector("kbd")?.textContent })),
		);
		assert.ok(all.length > 20, `${all.length}`);
		await page.keyboard.type("shwo");
		await palette.getByText("No matching commands.").waitFor();
		await palette.getByRole("combobox").fill("keys and");
		await page.keyboard.press("Enter");
		const help = page.getByRole("dialog", { name: "Help" });
		await help.waitFor();
		assert.equal(await help.evaluate((dialog) => dialog.scrollTop), 0);
		const rows = await help
			.locator("tr")
			.evaluateAll((rows) => rows.map((row) => [row.cells[1].textContent, row.cells[0].textContent]));
		const keys = new Map(rows);
		for (const { what, key } of all) {
			if (key) assert.equal(keys.get(what)?.split(", ")[0], key, what);
		}
		await page.keyboard.press("Escape");
		await help.waitFor({ state: "detached" });
		// The arrows choose another one.
		await page.keyboard.press("Control+k");
		await palette.getByRole("combobox").fill("open page");
		await page.keyboard.press("ArrowDown");
		await page.keyboard.press("ArrowDown");
		assert.match(await palette.getByRole("option", { selected: true }).textContent(), /^open the Events page/);
		await page.keyboard.press("Enter");
		await page.locator(".events tbody tr").first().waitFor();
		// What cannot be done on this page is not offered.
		await page.keyboard.press("Control+Shift+P");
		await options.first().waitFor();
		assert.equal(await palette.getByRole("option", { name: /zoom/ }).count(), 0);
	},

	async pinch(page) {
		await timeline(page);
		const box = await page.locator(".stage canvas").boundingBox();
		await page.keyboard.press("w");
		await until("the address has the range", () => span(page) !== null);
		const at = (span, part) => span.begin + (span.end - span.begin) * part;
		const isNear = (one, other, span) => Math.abs(one - other) < (span.end - span.begin) / 100;
		// A touchpad's pinch is a wheel with Ctrl.
		const before = span(page);
		await page.mouse.move(box.x + box.width / 4, box.y + 100);
		await page.keyboard.down("Control");
		await page.mouse.wheel(0, -60);
		await page.keyboard.up("Control");
		await until("it is zoomed", () => span(page).end - span(page).begin < (before.end - before.begin) * 0.7);
		assert.ok(isNear(at(before, 1 / 4), at(span(page), 1 / 4), span(page)));
		assert.equal(await page.evaluate(() => visualViewport.scale), 1);
		// Two fingers: what is under them stays under them.
		const now = span(page);
		const session = await page.context().newCDPSession(page);
		const touch = (type, ...parts) =>
			session.send("Input.dispatchTouchEvent", {
				type,
				touchPoints: parts.map((part, id) => ({
					id,
					x: Math.round(box.x + box.width * part),
					y: Math.round(box.y + 100),
				})),
			});
		await touch("touchStart", 0.4);
		await touch("touchStart", 0.4, 0.6);
		for (const by of [0.05, 0.1, 0.15, 0.2]) await touch("touchMove", 0.4 - by, 0.6 + by);
		await touch("touchEnd");
		await until("it is zoomed", () => span(page).end - span(page).begin < (now.end - now.begin) * 0.5);
		const zoomed = span(page);
		assert.ok(isNear(at(zoomed, 0.2), at(now, 0.4), zoomed), `${at(zoomed, 0.2)} and ${at(now, 0.4)}`);
		assert.ok(isNear(at(zoomed, 0.8), at(now, 0.6), zoomed), `${at(zoomed, 0.8)} and ${at(now, 0.6)}`);
	},

	// From the first page to a piece and a note on it, without a mouse.
	async keyboard(page) {
		await page.goto(address);
		await page.locator(".card").first().waitFor();
		const focused = () =>
			page.evaluate(() => {
				const element = document.activeElement;
				return {
					isPage: element === document.body,
					text: element.getAttribute("aria-label") ?? element.textContent,
					classes: element.className,
					pressed: element.getAttribute("aria-pressed"),
					isSeen: element.matches(":focus-visible") && getComputedStyle(element).outlineStyle !== "none",
				};
			});
		/** Goes on with Tab until something has the focus; everything on the way has a name and is seen to have it. */
		const tabTo = async (what, isMeant) => {
			for (let left = 150; left > 0; left--) {
				await page.keyboard.press("Tab");
				const now = await focused();
				// Before it begins again.
				if (now.isPage) continue;
				assert.ok(now.isSeen, `the focus is not seen on ${JSON.stringify(now)}`);
				assert.ok(now.text?.trim(), `no name: ${JSON.stringify(now)}`);
				if (isMeant(now)) return;
			}
			assert.fail(`Tab does not lead to ${what}`);
		};
		await tabTo("the first insight", ({ classes }) => classes.split(" ").includes("card"));
		await shot(page, "keyboard-card");
		await page.keyboard.press("Enter");
		await page.locator(".name").first().waitFor();
		await page.keyboard.press("ArrowDown");
		await page.locator(".name.selected").waitFor();
		const details = page.locator("section[aria-label=Selection]");
		await details.locator("dl").waitFor();
		const first = selection(page);
		await page.keyboard.press(".");
		await until("the next piece is selected", () => selection(page).at !== first.at);
		await page.keyboard.press("c");
		await page.getByLabel("Text of the note").waitFor();
		await page.keyboard.type("seen without a mouse");
		await tabTo("Save", ({ text }) => text.startsWith("Save"));
		await page.keyboard.press("Enter");
		await page.locator("dialog").waitFor({ state: "detached" });
		// The lanes can be walked through with Tab, pins included, to what is selected.
		await tabTo("a pin", ({ classes, pressed }) => classes === "pin" && pressed === "false");
		assert.equal(await page.evaluate(() => getComputedStyle(document.activeElement).opacity), "1");
		const pinned = await page.locator(".name .pin[aria-pressed=true]").count();
		await page.keyboard.press("Enter");
		await until("it is pinned", async () => (await page.locator(".name .pin[aria-pressed=true]").count()) > pinned);
		assert.equal((await focused()).pressed, "true");
		// And back to the note from another page.
		const noted = selection(page);
		await page.keyboard.press("4");
		await page.locator("section.sheet").waitFor();
		await page.keyboard.press("Shift+C");
		await page.getByRole("dialog", { name: "Notes" }).locator(".jump").waitFor();
		const isJump = ({ classes }) => classes === "jump";
		if (!isJump(await focused())) await tabTo("the note", isJump);
		await page.keyboard.press("Enter");
		await details.locator("dl").waitFor();
		assert.deepEqual(selection(page), noted);
		await shot(page, "keyboard-note");
	},

	/** A browser that is too old says so. */
	async old(page) {
		await page.addInitScript(() => {
			delete HTMLCanvasElement.prototype.transferControlToOffscreen;
		});
		await page.goto(`${address}#page=timeline`);
		const said = page.getByRole("alert").filter({ hasText: "This browser cannot draw timelines" });
		await said.waitFor();
		// Also while the page asks the server for other things, and only for what needs the timeline.
		await page.getByRole("button", { name: "Statistics" }).click();
		await page.locator("tbody tr").first().waitFor();
		assert.equal(await said.count(), 0);
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

/** Runs a scenario in a page of its own, which shares nothing with those before it. */
async function run(browser, { scenario, expected = null }) {
	assert.ok(scenario in scenarios, `there is no scenario ${scenario}`);
	refusals = 0;
	const [width, height] = (process.env.PISTE_WINDOW ?? "1280x800").split("x").map(Number);
	const context = await browser.newContext({ viewport: { width, height } });
	try {
		await context.addInitScript(readers);
		const page = await context.newPage();
		const complaints = [];
		page.on("pageerror", (error) => complaints.push(String(error)));
		page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
		page.on("request", (request) => {
			if (!request.url().startsWith(new URL(address).origin)) complaints.push(`asked for ${request.url()}`);
		});
		try {
			const refuse = (count) => {
				refusals = count;
			};
			const tools = { address, expected, colours, until, timeline, shot, refuse };
			await scenarios[scenario](page, tools);
		} catch (error) {
			await shot(page, `failed-${scenario}`);
			throw error;
		}
		const refused = complaints.filter((complaint) => /status of 4\d\d/.test(complaint));
		assert.ok(refused.length <= refusals, `${refused}`);
		assert.deepEqual(
			complaints.filter((complaint) => !refused.includes(complaint)),
			[],
		);
	} finally {
		await context.close();
	}
}

const browser = await launch();
try {
	for await (const line of createInterface({ input: process.stdin })) {
		const asked = JSON.parse(line);
		address = asked.address;
		const failed = await run(browser, asked).then(
			() => null,
			(error) => error.stack,
		);
		console.log(JSON.stringify(failed));
	}
} finally {
	await browser.close();
}
