// SPDX-License-Identifier: MIT OR Apache-2.0
// Scenarios of browser.mjs that lead from a picture to its cause. What they expect comes from the suite (tests/suite/tests/viewer/causes.rs).
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

/** The colour of a path in the light theme. */
const PATH = [196, 0, 110];

/** The columns of pixels in which the lane of a name has the colour of a path, as a part of all. */
async function shareOfLane(page, name) {
	const canvas = page.locator(".stage canvas");
	const [lane, stage] = [await name.boundingBox(), await canvas.boundingBox()];
	return canvas.evaluate(
		(canvas, { top, height, colour }) => {
			const scale = devicePixelRatio;
			const { width } = canvas;
			const { data } = pixelsOf(canvas, 0, top * scale, width, height * scale);
			let columns = 0;
			for (let x = 0; x < width; x++) {
				for (let at = x * 4; at < data.length; at += width * 4) {
					if (colour.some((part, index) => data[at + index] !== part)) continue;
					columns++;
					break;
				}
			}
			return columns / width;
		},
		{ top: Math.round(lane.y - stage.y), height: Math.round(lane.height), colour: PATH },
	);
}

/** A duration that the page shows. */
function durationNs(text) {
	const [, value, unit] = /^([\d.]+) (s|ms|µs|ns)/.exec(text);
	return Number(value) * { s: 1e9, ms: 1e6, µs: 1e3, ns: 1 }[unit];
}

/** The texts of a table's cells, by row. */
const cells = (table) =>
	table
		.locator("tbody tr")
		.evaluateAll((rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent.trim())));

export const causes = {
	// The path of a thread in a range: in the tables as the command prints it, and over the lanes.
	async path(page, { address, expected, colours, until, timeline, shot }) {
		const { lane, begin, end, causes, threads, blocked } = expected;
		const isDrawn = async () => ((await colours(page))[PATH.join(" ")] ?? 0) > 200;
		await timeline(page, `&range=${begin},${end}&span=${begin},${end}&last=${lane}`);
		assert.ok(!(await isDrawn()));
		const details = page.locator("section[aria-label=Range]");
		await details.getByRole("tab", { name: "Critical path" }).click();
		const table = (caption) => details.locator("table", { has: page.locator("caption", { hasText: caption }) });
		await table("By cause").waitFor();
		const said = ({ state, cause }) => state + (cause ? ` for ${cause}` : "");
		const shares = (rows) => rows.map(({ share_percent }) => `${share_percent.toFixed(1)} %`);
		const byCause = await cells(table("By cause"));
		assert.deepEqual(
			byCause.map((row) => row[0]),
			causes.map(said),
		);
		assert.deepEqual(
			byCause.map((row) => row[5]),
			shares(causes),
		);
		const byThread = await cells(table("By thread"));
		assert.deepEqual(
			byThread.map((row) => row[1]),
			threads.map(({ tid }) => String(tid)),
		);
		assert.deepEqual(
			byThread.map((row) => row[3]),
			shares(threads),
		);
		// A query of the range begins with what each thread did in it.
		await details.getByRole("button", { name: "SQL" }).click();
		const answer = page.locator("table", { has: page.locator("th", { hasText: "time_ns" }) });
		await answer.waitFor();
		await shot(page, "path-sql");
		const waits = (await cells(answer)).filter(([tid, , state]) => tid === String(blocked.tid) && state === "blocked");
		const sum = waits.reduce((sum, row) => sum + durationNs(row.at(-1)), 0);
		assert.ok(blocked.ns > 0 && Math.abs(sum - blocked.ns) <= blocked.ns / 100, `${sum} and ${blocked.ns}`);
		// A link shows the same.
		await page.goto("about:blank");
		await page.goto(
			`${address}#page=timeline&range=${begin},${end}&span=${begin},${end}&last=${lane}&tab=path&filter=sleeper`,
		);
		await table("By cause").waitFor();
		assert.deepEqual(await cells(table("By cause")), byCause);
		// Lanes that the filter hides are named, and pinned.
		await details.getByText(/^Not visible: .*waker/).waitFor();
		await details.getByRole("button", { name: "Pin the threads of the path" }).click();
		await details.getByText("Not visible:").waitFor({ state: "detached" });
		await until("the path is drawn", isDrawn);
		await shot(page, "path");
		for (const { tid, total_ns } of threads) {
			// The thread may have begun in the range.
			const expectedShare = (total_ns / (end - begin)) * 100;
			const name = page.locator(".name", { hasText: String(tid) }).first();
			const share = (await shareOfLane(page, name)) * 100;
			// A segment that is narrower than a column takes all of it.
			assert.ok(share > expectedShare - 1 && share < expectedShare + 12, `${tid}: ${share} and ${expectedShare}`);
		}
		// A picture that is saved has it, too.
		await page.keyboard.press("x");
		const dialog = page.getByRole("dialog", { name: "Export" });
		const [saved] = await Promise.all([page.waitForEvent("download"), dialog.getByText("Save as SVG").click()]);
		const lines = await page.evaluate(
			(svg) =>
				[...new DOMParser().parseFromString(svg, "image/svg+xml").querySelectorAll("#path path")].map((line) => [
					line.getAttribute("stroke"),
					/^(M-?[\d.]+ [\d.]+[HV]-?[\d.]+)+$/.test(line.getAttribute("d")),
				]),
			readFileSync(await saved.path(), "utf8"),
		);
		const [back, front] = ["rgb(255 255 255)", "#c4006e"];
		assert.deepEqual(lines, [
			[back, true],
			[back, true],
			[front, true],
			[front, true],
		]);
		await dialog.getByText("Close").click();
		// From a row to its time.
		const before = page.url();
		await table("Segments").locator("tbody .link").first().click();
		await until("it is seen closely", async () => page.url() !== before);
		assert.match(page.url(), /range=/);
		await shot(page, "path-segment");
		// The path of a piece.
		const whole = page.url().replace(/span=[^&]*/, `span=${begin}%2C${end}`);
		await page.goto("about:blank");
		await page.goto(whole);
		await until("lanes are drawn", async () => Object.keys(await colours(page)).length > 3);
		await page.locator(".name .title", { hasText: "sleeper" }).first().click();
		const selection = page.locator("section[aria-label=Selection]");
		await selection.locator("table").first().waitFor();
		await shot(page, "path-piece");
		await selection.getByRole("tab", { name: "Details" }).click();
		await selection.locator("dl").waitFor();
		await until("the path is gone", async () => !(await isDrawn()));
		// Of a range, it is that of the thread that was selected last; without one, the page asks for it.
		await page.keyboard.press("Escape");
		await details.getByRole("tab", { name: "Critical path" }).click();
		await details.getByText("depended on").waitFor();
		await page.goto("about:blank");
		await timeline(page, `&range=${begin},${end}&tab=path`);
		await details.getByText("Choose a thread to see its critical path").waitFor();
	},

	// Along an arrow and back.
	async wakes(page, { expected, timeline, until, shot }) {
		await timeline(page, `&filter=wake&span=${expected.begin},${expected.end}`);
		await page
			.locator(".name .title", { hasText: /^waker/ })
			.first()
			.click();
		const details = page.locator("section[aria-label=Selection]");
		const woken = details.locator("button.link", { hasText: /^sleeper \(\d+\)$/ });
		await woken.waitFor();
		await shot(page, "wakes");
		// The lane of the one that was woken is hidden: it is selected nevertheless.
		await page.keyboard.press("]");
		await details.locator("h2", { hasText: /^sleeper/ }).waitFor();
		await details.locator("button.link", { hasText: /^waker \(\d+\)$/ }).waitFor();
		await page.goto(page.url().replace("filter=wake", "filter=e"));
		await page.reload();
		await details.locator("button.link", { hasText: /^waker \(\d+\)$/ }).waitFor();
		await shot(page, "woken");
		const at = page.url();
		await page.keyboard.press("[");
		await details.locator("h2", { hasText: /^waker/ }).waitFor();
		await woken.waitFor();
		await page.keyboard.press("]");
		await until("it is the same wait", async () => page.url() === at);
	},

	// A system call among all of its name.
	async alike(page, { expected, timeline, until, shot }) {
		const { lane, thread, at, count, shorter, onCpuNs, slowestNs, slowestAt } = expected;
		await timeline(page, `&pinned=${thread}&open=${thread}&selected=${lane},${at}`);
		const details = page.locator("section[aria-label=Selection]");
		const comparison = details.locator("section[aria-label=Comparison]");
		await comparison.getByText(`${count.toLocaleString("en-US")} pieces`).waitFor();
		const said = await details.locator("dt", { hasText: "CPU time" }).locator("+ dd").textContent();
		const ns = durationNs(said);
		assert.ok(Math.abs(ns - onCpuNs) <= onCpuNs / 100, `${said} and ${onCpuNs} ns`);
		// The one in the middle is longer than those that are shorter: not quite half, where many are equally long.
		const rank = Number(/Longer than (\d+)/.exec(await comparison.textContent())[1]);
		assert.equal(rank, Math.round((100 * shorter) / (count - 1)));
		assert.equal(await comparison.locator(".bar.own").count(), 1);
		// What they are about is said where they are.
		const box = await details.boundingBox();
		for (const heading of await details.locator("h2, h3").all()) {
			const { y } = await heading.boundingBox();
			assert.ok(y >= box.y, `${await heading.textContent()}: at ${y}, above ${box.y}`);
		}
		await shot(page, "alike");
		// By keys, to the bar of the slowest, and to the slowest.
		await comparison.getByRole("listbox").focus();
		for (let left = await comparison.locator(".bar").count(); left > 0; left--) await page.keyboard.press("ArrowRight");
		await comparison.locator(".bar").last().and(page.locator("[aria-selected=true]")).waitFor();
		await shot(page, "alike-chosen");
		await comparison.locator(".slowest .link").first().click();
		await until("the slowest is selected", async () => page.url().includes(`selected=${lane}%2C${slowestAt}`));
		await comparison.getByText("Longer than 100 %").waitFor();
		const from = await details.locator("dt", { hasText: "From" }).locator("+ dd").textContent();
		assert.equal(from, `+${(slowestAt / 1e9).toFixed(9)} s`);
		assert.ok(slowestNs > 0);
		// A click on a bar, among all threads.
		await comparison.getByRole("tab", { name: "All threads" }).click();
		await comparison.getByText(/ in \d+ lanes/).waitFor();
		await comparison.locator(".bar").first().click();
		await comparison.locator(".slowest .link").first().waitFor();
		await shot(page, "alike-all");
	},
};
