// SPDX-License-Identifier: MIT OR Apache-2.0
// Draws the viewer for the documentation: `node pictures.mjs TRACE ADDRESS FOLDER`. TRACE says which of the traces of tools/pictures the server at
// ADDRESS has; each has its own pictures below.
import { chromium } from "playwright-core";

const [trace, address, folder] = process.argv.slice(2);

const MS = 1e6;

/** What the server answers, with times as they are in addresses. */
async function ask(page, path) {
	return page.evaluate(async (path) => (await fetch(`api/${path}`)).json(), path);
}

/** The trace: its lanes, and functions that find times and lanes. */
async function look(page) {
	const [{ begin_ns, end_ns }] = await ask(page, "recordings");
	const at = (ns) => Number(BigInt(ns) - BigInt(begin_ns));
	const { lanes } = await ask(page, "0/lanes");
	const thread = (name) => {
		const named = lanes.filter((lane) => lane.kind === "thread" && lane.name === name);
		return named.sort((one, other) => Number(BigInt(other.busy_ns) - BigInt(one.busy_ns)))[0];
	};
	const of = (lane, kind) => lanes.find((other) => other.kind === kind && other.of === lane.id);
	/** The first piece of a name from a time on. */
	const first = async (text, from) => {
		const range = `begin=${BigInt(begin_ns) + BigInt(Math.round(from))}&end=${end_ns}`;
		const { first } = await ask(page, `0/search?text=${text}&columns=1&${range}`);
		return { lane: first.lane, at: at(first.begin_ns) };
	};
	return { at, lanes, thread, of, first, end: at(end_ns) };
}

/** The timeline with its lanes, as an address has it. */
async function timeline(page, shown) {
	await page.goto(`${address}#${new URLSearchParams({ page: "timeline", ...shown })}`);
	await page.reload();
	await page.locator(".name").first().waitFor();
}

/** The card of an insight, and what stands out there. */
async function insight(page, text) {
	await page.goto(address);
	await page.locator(".card", { hasText: text }).first().waitFor();
	const { insights } = await ask(page, "0/insights");
	return insights.find(({ kind, what }) => `${kind}${what}`.includes(text));
}

async function save(page, name) {
	// Where nothing answers it.
	await page.mouse.move(150, 64);
	await page.waitForTimeout(1500);
	await page.screenshot({ path: `${folder}/${name}.png` });
}

const selection = (page) => page.locator("section[aria-label=Selection]");

const pictures = {
	// The example of docs/guide/9-analyses.md: a lock convoy.
	async orders(page) {
		await insight(page, "lock convoy");
		await page.screenshot({ path: `${folder}/viewer-insights.png` });
		await page.locator(".card", { hasText: "lock convoy" }).click();
		await page.locator(".name").first().waitFor();
		// Some milliseconds in the middle, where a wait is long enough to be seen.
		const [, begin, end] = /[#&]range=(\d+)%2C(\d+)/.exec(page.url()) ?? [];
		const middle = Math.round((Number(begin) + Number(end)) / 2);
		const pinned = /[#&]pinned=([^&]*)/.exec(page.url())?.[1] ?? "";
		await timeline(page, {
			span: `${middle - 2.5 * MS},${middle + 2.5 * MS}`,
			pinned: decodeURIComponent(pinned),
		});
		await page.locator(".name .title").nth(1).click();
		const isLongWait = async () => {
			const text = await selection(page).locator("dl").textContent();
			return text.includes("futex") && text.includes("Ended by") && /Duration[3-9]\d\d\.\d µs/.test(text);
		};
		for (let left = 300; left > 0 && !(await isLongWait()); left--) {
			await page.keyboard.press(".");
			await page.waitForTimeout(60);
		}
		await save(page, "viewer-timeline");
	},

	// The cases of docs/guide/10-cases.md.

	async "disk-wait"(page) {
		await insight(page, "waited for a disk");
		const { lanes, thread, of, first, end } = await look(page);
		const sqlite = thread("sqlite3");
		const disks = lanes.filter(({ kind }) => kind === "device");
		const call = await first("fdatasync", end / 2);
		await timeline(page, {
			span: `${call.at - 5 * MS},${call.at + 10 * MS}`,
			pinned: disks.map(({ id }) => id).join(),
			filter: "sqlite3",
			open: `${sqlite.id}`,
			selected: `${of(sqlite, "calls").id},${call.at + 1}`,
		});
		await selection(page).locator("section[aria-label=Comparison]").waitFor();
		await save(page, "case-disk-wait");
	},

	async "lock-convoy"(page) {
		await page.setViewportSize({ width: 1280, height: 400 });
		await insight(page, "lock convoy");
		const { lanes, thread, first, end } = await look(page);
		const wait = await first("futex", end / 2);
		const { pid } = thread("python3");
		const threads = lanes.filter((lane) => lane.kind === "thread" && lane.pid === pid);
		await timeline(page, {
			span: `${wait.at - 20 * MS},${wait.at + 60 * MS}`,
			pinned: threads.map(({ id }) => id).join(),
			closed: "interrupts",
		});
		await save(page, "case-lock-convoy");
	},

	async "priority-inversion"(page) {
		await insight(page, "priority inversion");
		const { at, thread } = await look(page);
		const {
			inversions: [longest],
		} = await ask(page, "0/analysis/priority-inversion?limit=1");
		const begin = at(longest.begin_ns);
		const [control, log, draw] = ["control", "log", "draw"].map(thread);
		const shown = {
			span: `${begin - 15 * MS},${begin + 60 * MS}`,
			pinned: `${control.id},${log.id},${draw.id}`,
			selected: `${control.id},${begin + 1}`,
		};
		await timeline(page, { ...shown, tab: "path" });
		await selection(page).locator("table").first().waitFor();
		await save(page, "case-priority-inversion");
		await page.setViewportSize({ width: 1280, height: 400 });
		await timeline(page, { ...shown, selected: "", view: "flow", closed: "interrupts" });
		await save(page, "viewer-flow");
	},

	async "cpu-hog"(page) {
		await insight(page, "redis-server");
		const { thread, end } = await look(page);
		const [redis, gzip] = ["redis-server", "gzip"].map(thread);
		const range = `${end / 2 - 50 * MS},${end / 2 + 50 * MS}`;
		await timeline(page, {
			span: range,
			range,
			pinned: `${redis.id},${gzip.id}`,
			tab: "schedstats",
			closed: "interrupts",
		});
		const threads = page.locator("section[aria-label=Range] table").nth(1);
		await threads.waitFor();
		await threads.evaluate((table) => table.scrollIntoView({ block: "end" }));
		await save(page, "case-cpu-hog");
	},

	async "slow-request"(page) {
		const { begin_ns, end_ns } = await insight(page, "slow file");
		const { at, thread } = await look(page);
		const [begin, end] = [at(begin_ns), at(end_ns)];
		const redis = thread("redis-server");
		await timeline(page, {
			span: `${begin - 300 * MS},${end + 300 * MS}`,
			filter: "redis",
			selected: `${redis.id},${(begin + end) / 2}`,
			tab: "path",
		});
		await selection(page).getByRole("button", { name: "Pin the threads of the path" }).click();
		await selection(page).locator("table").first().waitFor();
		await save(page, "case-slow-request");
		await timeline(page, { find: "fsfreeze", pinned: `${redis.id}` });
		await page.getByText(/\d found/).waitFor();
		await page.keyboard.press("F3");
		await selection(page).locator("dl").waitFor();
		await save(page, "viewer-search");
	},

	async live(page) {
		await page.setViewportSize({ width: 1280, height: 400 });
		await page.goto(`${address}#page=timeline`);
		await page
			.getByRole("status")
			.getByText(/^● recording, ([5-9]|\d\d)\.?\d* s/)
			.waitFor();
		const { lanes } = await look(page);
		const counters = lanes.filter((lane) => lane.kind === "counter" && lane.name === "lo");
		const pinned = counters.map(({ id }) => id).join();
		await timeline(page, { span: "0,4000000000", follow: "1", pinned, filter: "redis-server" });
		await page.waitForTimeout(2000);
		await save(page, "viewer-live");
	},
};

const browser = await chromium.launch({
	executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
	args: ["--no-sandbox", "--disable-gpu"],
});
try {
	const page = await browser.newPage({ viewport: { width: 1280, height: 640 } });
	await pictures[trace](page);
} finally {
	await browser.close();
}
