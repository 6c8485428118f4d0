// SPDX-License-Identifier: MIT OR Apache-2.0
// A scenario of browser.mjs: traces with absurd numbers and names, and damaged ones (tests/suite/tests/viewer/hostile.rs).
import assert from "node:assert/strict";

export const hostile = {
	/** Each is shown, or it is said why not; hands and pages work. */
	async hostile(page, { address, expected, shot, refuse }) {
		// Analyses say what they lack.
		refuse(Number.POSITIVE_INFINITY);
		const canvas = page.locator(".stage canvas");
		for (let recording = 0; recording < expected; recording++) {
			await page.goto(`${address}#page=timeline&recording=${recording}`);
			await page.reload();
			await canvas.or(page.locator(".message[role=alert]")).waitFor();
			await shot(page, `hostile-${recording}`);
			if (!(await canvas.isVisible())) continue;
			const title = page.locator(".name .title").first();
			if (await title.isVisible()) {
				await title.click();
				await page.locator("section[aria-label=Selection] h2").waitFor();
			}
			const box = await canvas.boundingBox();
			await page.mouse.move(box.x + box.width / 3, box.y + 40);
			for (const key of ["w", "w", "w", "d", "s", "a", ".", ",", "m", "v", "v", "r", "f"])
				await page.keyboard.press(key);
			await page.locator("section[aria-label=Range]").waitFor();
			await shot(page, `hostile-${recording}-range`);
			for (const [key, name] of [
				["1", "insights"],
				["3", "events"],
				["4", "statistics"],
			]) {
				await page.keyboard.press(key);
				await page.waitForFunction(() => !document.querySelector("[aria-busy=true]"));
				assert.equal(await page.locator("img:not(.cm-widgetBuffer)").count(), 0, `${name} of ${recording}`);
			}
		}
	},
};
