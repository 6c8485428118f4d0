// SPDX-License-Identifier: MIT OR Apache-2.0
// Two recordings beside each other, a scenario of browser.mjs. What it expects comes from the suite (tests/suite/tests/viewer/compare.rs).
import assert from "node:assert/strict";

const UNITS = { ns: 1, µs: 1e3, ms: 1e6, s: 1e9 };

/** `+1.25 ms` in ns. */
function nsOf(text) {
	const [, sign, number, unit] = /^([+−]?)([\d.]+) (ns|µs|ms|s)$/.exec(text.trim());
	return (sign === "−" ? -1 : 1) * Number(number) * UNITS[unit];
}

/** A part of the page's address, as numbers. */
const numbers = (page, name) =>
	(new URLSearchParams(new URL(page.url()).hash.slice(1)).get(name) ?? "").split(",").filter(Boolean).map(Number);

export const compare = {
	async compare(page, { address, expected, until, shot }) {
		const { opened, slept, traces, all } = expected;
		const [before, after] = ["Before", "After"].map((name) => page.getByRole("region", { name, exact: true }));
		const table = page.getByRole("region", { name: "Differences" });
		// From an open trace: of two, the other one is compared with.
		await page.goto(`${address}#page=timeline`);
		await page.locator(".name").first().waitFor();
		await page.keyboard.press("6");
		await before.locator(".name").first().waitFor();
		await after.locator(".name").first().waitFor();
		await table.locator("tbody tr").first().waitFor();
		await until("all changes are listed", async () => (await table.locator("tbody tr").count()) === all);
		await shot(page, "compare");
		const filter = table.getByLabel("Filter differences");
		await filter.fill("WORKER clock_nanosleep");
		await until("rows are filtered", async () => (await table.locator("tbody tr").count()) < 10);
		for (const row of await table.locator("tbody tr").allInnerTexts()) assert.match(row, /worker.*clock_nanosleep/);
		await filter.fill("");

		// What got slower is in the table, as the command says it.
		const rowOf = ({ about, analysis, table: name }, what) => {
			const cell = (text) => page.locator("td", { hasText: new RegExp(`^\\s*${text}\\s*$`) });
			const rows = table.locator("tbody tr").filter({ has: cell(`${analysis} ${name}`) });
			return rows.filter({ has: cell(about.replace(/( -)+$/, "")) }).filter({ has: cell(what) });
		};
		const isAs = async (row, change) => {
			const [by, percent, from, to] = await row.locator("td").allInnerTexts();
			for (const [text, ns] of [
				[by, change.change],
				[from, change.before],
				[to, change.after],
			]) {
				assert.ok(Math.abs(nsOf(text) - ns) <= Math.abs(ns) / 500 + 1, `${text} and ${ns} ns`);
			}
			assert.equal(percent, `+${Math.round(change.change_percent).toLocaleString("en-US")} %`);
		};
		const sleeps = rowOf(slept, "total");
		await isAs(sleeps, slept);

		// A row leads to the longest piece of both, one above the other.
		const isAt = async (thing) => {
			const selected = ["selected", "with-selected"].map((name) => numbers(page, name));
			const origins = await page.evaluate(async () =>
				(await (await fetch("api/recordings")).json()).map(({ begin_ns }) => begin_ns),
			);
			for (const [side, trace] of traces.entries()) {
				const at = Number(BigInt(trace[thing].begin_ns) - BigInt(origins[side]));
				assert.equal(selected[side][1], at, `${thing} in ${trace.path}`);
			}
			assert.equal(numbers(page, "offset")[0], selected[0][1] - selected[1][1]);
			return selected;
		};
		await sleeps.getByRole("button").click();
		await until("a piece is selected in both", () => numbers(page, "with-selected").length === 2);
		await isAt("sleep");
		for (const one of [before, after]) {
			await one.locator(".name.selected", { hasText: "worker" }).waitFor();
			assert.equal(await one.locator(".name .pin[aria-pressed=true]").count(), 1);
		}
		await page.getByText(/^After takes [\d.]+ ms longer \(\d[\d.]* times as long\)$/).waitFor();
		await shot(page, "compare-row");
		await table.getByLabel("Analysis").selectOption({ label: "System calls" });
		const calls = rowOf(opened, "total");
		await calls.waitFor();
		await isAs(calls, opened);
		await calls.getByRole("button").click();
		await until("calls are selected", () => page.url().includes("with-open="));
		const selected = await isAt("open");
		for (const one of [before, after]) await one.locator(".name.inner.selected", { hasText: "System calls" }).waitFor();
		await shot(page, "compare-calls");

		// Zooming and panning one moves both: the axis is common.
		const labels = () =>
			Promise.all([before, after].map((one) => one.locator(".stage canvas").getAttribute("aria-label")));
		const spans = async () =>
			(await labels()).map((label) => /from ([+-][\d.]+) s to ([+-][\d.]+) s/.exec(label).slice(1).map(Number));
		const isCommon = async () => {
			const [first, second] = await spans();
			const [offset = 0] = numbers(page, "offset");
			for (const [one, other] of [
				[first[0], second[0]],
				[first[1], second[1]],
			]) {
				assert.ok(Math.abs(one - other - offset / 1e9) < 3e-6, `${one} and ${other}`);
			}
			return first;
		};
		const seen = await isCommon();
		const box = await after.locator(".stage canvas").boundingBox();
		await page.mouse.move(box.x + box.width / 2, box.y + 60);
		await page.mouse.wheel(0, 1500);
		await until("it is zoomed", async () => (await spans())[0][0] < seen[0]);
		const zoomed = await isCommon();
		assert.ok(zoomed[1] - zoomed[0] > 2 * (seen[1] - seen[0]), `${zoomed} and ${seen}`);
		await page.mouse.down();
		await page.mouse.move(box.x + box.width / 4, box.y + 60, { steps: 4 });
		await page.mouse.up();
		await until("it is moved", async () => (await spans())[0][0] > zoomed[0]);
		await isCommon();
		// Keys are meant for the one that was used last; "T" leads to the other one.
		await after.and(page.locator(".active")).waitFor();
		await page.keyboard.press(".");
		await until("the next call is selected", () => numbers(page, "with-selected")[1] > selected[1][1]);
		assert.deepEqual(numbers(page, "selected"), selected[0]);
		await page.keyboard.press("t");
		await before.and(page.locator(".active")).waitFor();
		await page.keyboard.press(".");
		await until("the next call is selected", () => numbers(page, "selected")[1] > selected[0][1]);

		// Aligned anew: the pieces that are selected now.
		await page.keyboard.press("y");
		const aligned = numbers(page, "selected")[1] - numbers(page, "with-selected")[1];
		await until("they are aligned", () => numbers(page, "offset")[0] === aligned);
		await isCommon();
		// A link shows the same.
		const state = async (one) => [
			await Promise.all(
				["Before", "After"].map((name) =>
					one.getByRole("region", { name, exact: true }).locator(".stage canvas").getAttribute("aria-label"),
				),
			),
			await one.locator(".chosen").textContent(),
			await one.locator(".name.selected").allInnerTexts(),
		];
		const link = page.url();
		const other = await page.context().newPage();
		await other.goto(link);
		await other.locator(".chosen strong").waitFor();
		await until("it is the same", async () => JSON.stringify(await state(other)) === JSON.stringify(await state(page)));
		await other.close();
		// By hand, and back to both begins.
		const shift = page.getByLabel("Shift of the second trace");
		await shift.fill("-2 ms");
		await shift.press("Enter");
		await until("it is shifted", () => numbers(page, "offset")[0] === -2_000_000);
		assert.equal(await shift.inputValue(), "-0.002000000 s");
		await page.getByRole("button", { name: "Align starts" }).click();
		await until("nothing is shifted", () => numbers(page, "offset").length === 0);
		// Marks, one in each, where the pointer is.
		await page.keyboard.press("Escape");
		for (const [one, part] of [
			[before, 0.25],
			[after, 0.5],
		]) {
			const box = await one.locator(".stage canvas").boundingBox();
			await page.mouse.move(box.x + box.width * part, box.y + 60);
			await page.keyboard.press("m");
		}
		await until("both are marked", () => numbers(page, "with-marks").length === 1);
		await page.keyboard.press("y");
		const marks = numbers(page, "marks")[0] - numbers(page, "with-marks")[0];
		await until("marks are aligned", () => numbers(page, "offset")[0] === marks);
		await isCommon();
		await page.keyboard.press("f");
		await until("both are seen", async () => (await spans())[0][1] > 0.3);
		await isCommon();
		await shot(page, "compare-all");

		// The end of the shorter one is hatched as what is not known, not plain as what is idle.
		const end = async (one) => {
			const canvas = one.locator(".stage canvas");
			return canvas.evaluate((canvas) => {
				const { data } = pixelsOf(canvas, canvas.width - 12, 30, 8, 12);
				const found = new Set();
				for (let at = 0; at < data.length; at += 4) found.add(`${data[at]} ${data[at + 1]} ${data[at + 2]}`);
				return [...found].sort();
			});
		};
		await page.getByRole("button", { name: "Align starts" }).click();
		await until("the begins are aligned", () => numbers(page, "offset").length === 0);
		await page.keyboard.press("f");
		const hatched = async (one) => (await end(one)).join() === "176 180 186,255 255 255";
		await until("the shorter one ends", async () => (await hatched(before)) || (await hatched(after)));

		// Exchanged, what got slower got faster.
		await page.getByRole("button", { name: "Exchange the two traces" }).click();
		await table.getByLabel("Analysis").selectOption({ label: "The largest changes of all analyses" });
		await sleeps.waitFor();
		const [by] = await sleeps.locator("td").allInnerTexts();
		assert.ok(nsOf(by) < 0, by);
		await table.getByLabel("Sums").selectOption({ label: "per second of trace" });
		await until("sums are rates", async () => (await sleeps.locator("td").first().textContent()).endsWith("/s"));
		// One of them alone, where it is.
		const [began] = (await spans())[1];
		await after.getByTitle(/^Open .* alone$/).click();
		await page.getByRole("region", { name: "Differences" }).waitFor({ state: "detached" });
		const alone = await page.locator(".stage canvas").getAttribute("aria-label");
		assert.ok(Math.abs(Number(/from ([+-][\d.]+) s/.exec(alone)[1]) - began) < 3e-6, `${alone} and ${began}`);
	},
};
