// SPDX-License-Identifier: MIT OR Apache-2.0
// Scenarios of browser.mjs about flame graphs and spans in ranges. What they expect is what the command prints (tests/suite/tests/viewer/flame.rs).
import assert from "node:assert/strict";

/** As the page writes the share of all. */
function share(cost, all) {
	const percent = (cost / all) * 100;
	return percent > 0 && percent < 0.01 ? "<0.01 %" : `${percent.toFixed(percent < 10 ? 2 : 1)} %`;
}

/** The rows of a table of the command, each with its path. */
function paths(rows) {
	const path = [];
	return rows.map((row) => {
		path.length = row.depth;
		path.push(row.function);
		return { ...row, path: path.join(";"), total: row.total_ns ?? row.total };
	});
}

/** The frames of the page, from the top down: each with the path that its place says. */
async function frames(graph) {
	const found = await graph.locator(".frame").evaluateAll((all) =>
		all.map((frame) => {
			const rect = frame.querySelector("rect");
			const number = (name) => Number(rect.getAttribute(name));
			return {
				label: frame.getAttribute("aria-label"),
				level: Number(frame.getAttribute("aria-level")),
				x: number("x"),
				width: number("width") + 1,
				fill: rect.getAttribute("fill"),
			};
		}),
	);
	const named = (label) => label.split(", ")[0];
	return found.map((frame) => {
		const names = [];
		// The caller at each level is the last one that begins at the frame or before it.
		for (let level = 2; level < frame.level; level++) {
			const begun = found.filter((one) => one.level === level && one.x <= frame.x + 0.001);
			names.push(named(begun.reduce((one, other) => (other.x > one.x ? other : one)).label));
		}
		return { ...frame, path: [...names, named(frame.label)].join(";") };
	});
}

/** What is drawn is what the command prints: every path that is wide enough, with its share and as wide as that. */
async function compare(graph, rows) {
	const expected = paths(rows);
	const all = expected.filter(({ depth }) => depth === 0).reduce((sum, { total }) => sum + total, 0);
	const drawn = await frames(graph);
	const whole = drawn[0].width;
	const seen = new Map(drawn.slice(1).map((frame) => [frame.path, frame]));
	const wide = expected.filter(({ total }) => (total / all) * whole >= 1);
	assert.deepEqual([...seen.keys()].sort(), wide.map(({ path }) => path).sort());
	for (const { path, total } of wide) {
		const { label, width } = seen.get(path);
		assert.ok(label.includes(`, ${share(total, all)} of all`), `${label}: ${share(total, all)}`);
		assert.ok(Math.abs(width - Math.max(2, (total / all) * whole)) < 0.1, `${path}: ${width} of ${whole}`);
	}
	return { all, expected, wide };
}

/** What the server answers, which is what the command prints. */
const answer = (page, asked) => page.evaluate(async (asked) => (await fetch(`api/0/${asked}`)).json(), asked);

export const flames = {
	// Functions of a program, without the kernel.
	async flame(page, { expected, timeline, until, shot }) {
		const { begin, end, all: asked } = expected;
		await timeline(page, `&range=${begin},${end}`);
		const details = page.locator("section[aria-label=Range]");
		// What needs the kernel is not offered.
		await details.getByText("states of threads, waits and system calls need kernel events").waitFor();
		await details.getByRole("tab", { name: "Flame graph" }).click();
		const graph = details.getByRole("tree");
		await graph.locator(".frame").nth(2).waitFor();
		await shot(page, "flame");
		const { calls } = await answer(page, asked);
		const { all, expected: rows } = await compare(graph, calls);
		assert.equal(await details.getByRole("tab", { name: "Time in functions" }).getAttribute("aria-selected"), "true");
		// The tooltip has the cost, the share and the count.
		const branch = rows.filter(({ path }) => path.endsWith(";main;branch"))[0];
		const label = (name) => graph.locator(`.frame[aria-label^="${name}, "]`);
		await label("branch").first().hover();
		const tip = page.locator(".tip");
		await tip.getByText(`, ${share(branch.total, all)} of all`).waitFor();
		await tip.getByText(branch.calls === 1 ? "1 call" : `${branch.calls} calls`).waitFor();
		await tip.getByText("in the function itself").waitFor();
		await shot(page, "flame-tip");
		// A click enlarges, Back undoes it.
		const width = (name) =>
			label(name)
				.first()
				.locator("rect")
				.evaluate((rect) => Number(rect.getAttribute("width")));
		const narrow = await width("branch");
		const whole = (await frames(graph))[0].width;
		await label("branch").first().click();
		await until("it is as wide as all", async () => Math.abs((await width("branch")) + 1 - whole) < 0.01);
		assert.ok(narrow < whole - 1);
		// Its callers stay above it.
		const above = (await frames(graph)).filter(({ level }) => level <= 3).map(({ label }) => label.split(", ")[0]);
		assert.deepEqual(above.slice(0, 3), ["all", branch.path.split(";")[0], "main"]);
		await label("leaf").first().hover();
		await tip.getByText(/ % of branch$/).waitFor();
		await shot(page, "flame-enlarged");
		await details.getByRole("button", { name: "Back" }).click();
		await until("it is as before", async () => (await width("branch")) === narrow);
		assert.ok(await details.getByRole("button", { name: "Back" }).isDisabled());
		assert.ok(await details.getByRole("button", { name: "Reset" }).isDisabled());
		// By keys: down to the most expensive, enlarged, to a neighbour, back, and out.
		await graph.focus();
		const current = () => graph.locator("[aria-selected=true]").getAttribute("aria-label");
		for (const _ of [1, 2, 3]) await page.keyboard.press("ArrowDown");
		const dearest = rows.find(({ depth }) => depth === 2);
		assert.ok((await current()).startsWith(`${dearest.function}, `), `${await current()} and ${dearest.path}`);
		await tip.getByText(dearest.function, { exact: true }).waitFor();
		await page.keyboard.press("Enter");
		await until("it is enlarged", async () => Math.abs((await width(dearest.function)) + 1 - whole) < 0.01);
		await shot(page, "flame-keys");
		await page.keyboard.press("ArrowUp");
		assert.ok((await current()).startsWith("main, "), await current());
		await page.keyboard.press("Enter");
		await page.keyboard.press("Backspace");
		await until("it is enlarged again", async () => Math.abs((await width(dearest.function)) + 1 - whole) < 0.01);
		await page.keyboard.press("Escape");
		await until("all is seen", async () => await details.getByRole("button", { name: "Reset" }).isDisabled());
		assert.match(page.url(), /range=/);
		// A search says how much it has found.
		await details.getByLabel("Highlight functions").fill("LEAF");
		const leaves = rows.filter(({ function: name }) => name === "leaf");
		const sum = leaves.reduce((sum, { total }) => sum + total, 0);
		await details.getByRole("status").getByText(`${leaves.length} frames, `).waitFor();
		await details
			.getByRole("status")
			.getByText(`, ${share(sum, all)} of all`)
			.waitFor();
		assert.ok((await graph.locator(".match").count()) > 0);
		await shot(page, "flame-search");
		await details.getByLabel("Highlight functions").fill("nothing like this");
		await details.getByText("no matching functions").waitFor();
		assert.equal(await graph.locator(".match").count(), 0);
		// The same link shows the same; in the dark, too.
		const before = (await frames(graph)).map(({ label, fill }) => `${label} ${fill}`);
		const other = await page.context().newPage();
		await other.emulateMedia({ colorScheme: "dark" });
		await other.goto(page.url());
		const same = other.getByRole("tree");
		await same.locator(".frame").nth(2).waitFor();
		await shot(other, "flame-dark");
		assert.deepEqual(
			(await frames(same)).map(({ label, fill }) => `${label} ${fill}`),
			before,
		);
		await other.close();
	},

	// Stacks of the kernel: several kinds, of all threads and of one.
	async flameKinds(page, { expected, timeline, until, shot }) {
		const { begin, end, lane } = expected;
		await timeline(page, `&range=${begin},${end}&tab=flame&last=${lane}&filter=sleeper`);
		const [all, one] = [await answer(page, expected.all), await answer(page, expected.one)];
		const details = page.locator("section[aria-label=Range]");
		const graph = details.getByRole("tree");
		await graph.locator(".frame").nth(2).waitFor();
		await compare(graph, all.off_cpu);
		await shot(page, "flame-off-cpu");
		await details.getByRole("tab", { name: "Events", exact: true }).click();
		await until("these are others", async () => /flame=events/.test(page.url()));
		await graph.locator(".frame", { hasText: /^All: [\d,]+ events$/ }).waitFor();
		await compare(graph, all.events);
		await shot(page, "flame-events");
		// Of the thread that was selected last.
		await details.getByRole("tab", { name: "Off-CPU time" }).click();
		const thread = details.getByLabel("Thread", { exact: true });
		await thread.selectOption(String(lane));
		await graph.locator(".frame").nth(2).waitFor();
		await until("it is of one thread", async () =>
			/^sleeper, .* 100.0 % of all/.test(await graph.locator(".frame").nth(1).getAttribute("aria-label")),
		);
		await compare(graph, one.off_cpu);
		assert.match(page.url(), new RegExp(`flame-of=${lane}`));
		await shot(page, "flame-thread");
		await thread.selectOption("");
		await until("it is of all again", async () => !/flame-of=/.test(page.url()));
	},

	// Nothing to draw one of: how to record it.
	async flameNothing(page, { timeline, shot, refuse }) {
		refuse(1);
		await timeline(page, "&range=100000000,300000000&tab=flame");
		const details = page.locator("section[aria-label=Range]");
		await details.getByText("flame needs entries and exits of functions, or events with stacks").waitFor();
		const commands = await details.locator("code").allInnerTexts();
		assert.deepEqual(commands, [
			"piste record --no-kernel --preload functions -o DIR -- CMD",
			"piste record --no-user -k sched_switch --callstack kernel,user -o DIR -- CMD",
		]);
		assert.equal(await details.getByRole("tree").count(), 0);
		await shot(page, "flame-nothing");
	},

	// Spans of a range, in a trace without the kernel.
	async spans(page, { expected, timeline, until, shot }) {
		const { begin, end, spans, slowest } = expected;
		await timeline(page, `&range=${begin},${end}`);
		const details = page.locator("section[aria-label=Range]");
		const table = details.locator("table", { has: page.locator("caption", { hasText: "Spans by name" }) });
		await table.waitFor();
		assert.deepEqual(await details.getByRole("tab").allInnerTexts(), ["Spans", "Flame graph"]);
		await shot(page, "spans");
		const rows = () =>
			table
				.locator("tbody tr")
				.evaluateAll((rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent.trim())));
		const unit = (text) => {
			const [, value, unit] = /^([\d.]+) (s|ms|µs|ns)$/.exec(text);
			return Number(value) * { s: 1e9, ms: 1e6, µs: 1e3, ns: 1 }[unit];
		};
		const near = (text, ns) => assert.ok(Math.abs(unit(text) - ns) <= ns / 500, `${text} and ${ns} ns`);
		const shown = await rows();
		assert.deepEqual(
			shown.map((row) => row[0]),
			spans.map(({ name }) => name),
		);
		for (const [place, row] of shown.entries()) {
			const { count, total_ns, p50_ns, p99_ns, max_ns, threads, beyond, incomplete } = spans[place];
			assert.equal(row[1], count.toLocaleString("en-US"));
			for (const [at, ns] of [total_ns, p50_ns, p99_ns, max_ns].entries()) near(row[at + 2], ns);
			assert.deepEqual(row.slice(6).map(Number), [threads, beyond, incomplete]);
		}
		// Sorted by another column.
		await table.getByRole("button", { name: "span" }).click();
		const names = (await rows()).map((row) => row[0]);
		assert.deepEqual(names, names.toSorted());
		// From a row to its slowest, and back.
		await table.locator("tr", { hasText: spans[0].name }).locator(".link").click();
		const selection = page.locator("section[aria-label=Selection]");
		await selection.locator("dd", { hasText: spans[0].name }).waitFor();
		near(await selection.locator("dt", { hasText: "Duration" }).locator("+ dd").textContent(), spans[0].max_ns);
		assert.match(page.url(), new RegExp(`selected=${slowest.lane}%2C${slowest.at}`));
		await shot(page, "spans-slowest");
		await page.keyboard.press("Escape");
		await table.waitFor();
		await until("the range is as before", async () => (await rows()).length === spans.length);
	},
};
