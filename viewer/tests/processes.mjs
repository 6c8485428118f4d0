// SPDX-License-Identifier: MIT OR Apache-2.0
// A scenario of browser.mjs about the tree of processes. What it expects is what the command prints (tests/suite/tests/viewer/processes.rs).
import assert from "node:assert/strict";

/** The headings and lanes of threads, with how deep they lie. */
const shown = (page) =>
	page.locator(".names li").evaluateAll((rows) =>
		rows
			.map((row) => ({
				top: row.getBoundingClientRect().top,
				level: Number(row.dataset.level),
				left: Number.parseFloat(row.style.paddingLeft),
				isHeading: row.classList.contains("heading"),
				title: row.querySelector(".title").textContent.replace(/^[▾▸]/, "").trim(),
			}))
			.sort((one, other) => one.top - other.top),
	);

export const processes = {
	async tree(page, { expected, timeline, until, shot }) {
		// As tall as is needed to see all rows: only those in the window are there.
		await page.setViewportSize({ width: 1280, height: 6000 });
		await timeline(page, "&group=tree");
		await shot(page, "tree");
		const rows = await shown(page);
		/** The process of a row, by the number behind its name. */
		const pidOf = ({ title }) => Number(/ (\d+)( |$)/.exec(title)?.[1]);
		const parents = new Map();
		const headings = [];
		for (const row of rows) {
			while (headings.length > 0 && headings.at(-1).level >= row.level) headings.pop();
			const pid = pidOf(row);
			const above = headings.findLast((heading) => pidOf(heading) !== pid);
			if (!parents.has(pid)) parents.set(pid, above ? pidOf(above) : null);
			if (row.isHeading) headings.push(row);
		}
		// It is seen, too, as long as there is room.
		for (const { level, left } of rows) assert.equal(left, 4 + (level === 0 ? 0 : 12 + 6 * (Math.min(level, 16) - 1)));
		for (const [pid, ppid] of expected.parents) assert.equal(parents.get(pid), ppid, `${pid}: ${JSON.stringify(rows)}`);
		// A branch is collapsed with all that is in it, and the link shows the same.
		const root = page.locator(".heading .title", { hasText: new RegExp(` ${expected.root}$`) });
		await root.click();
		await until("the branch is collapsed", async () => (await shown(page)).length < rows.length - 3);
		const closed = (await shown(page)).map(({ title }) => title);
		assert.ok(!closed.some((title) => /^(sleeper|waker) /.test(title)), String(closed));
		await page.reload();
		await root.waitFor();
		await until(
			"it is still collapsed",
			async () => (await shown(page)).map(({ title }) => title).join() === closed.join(),
		);
		await root.click();
		await until("it is expanded", async () => (await shown(page)).length === rows.length);
		// What is looked for is shown below what it comes from.
		await page.keyboard.press("/");
		await page.keyboard.type("waker");
		await until("the lanes are filtered", async () =>
			(await page.locator(".count").textContent()).startsWith("1 lane"),
		);
		const left = await shown(page);
		assert.equal(pidOf(left.at(-2)), expected.root);
		assert.ok(left.at(-1).title.startsWith("waker ") && left.at(-1).level > left.at(-2).level, JSON.stringify(left));
		await shot(page, "tree-filtered");
	},
};
