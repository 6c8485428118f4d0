// SPDX-License-Identifier: MIT OR Apache-2.0
// A scenario of browser.mjs: a trace with more lanes than anybody can look at (tests/suite/tests/viewer/scale.rs).
import assert from "node:assert/strict";

export const many = {
	// Lists are as long as the window is high, and everything is found.
	async many(page, { colours, until, timeline, shot }) {
		await timeline(page);
		const names = page.locator(".stage .name");
		const isShort = async () => assert.ok((await names.count()) < 100, `${await names.count()} names`);
		await isShort();
		assert.match(await page.locator(".count").textContent(), /lanes.*left out/);
		await shot(page, "many");
		// To the last ones.
		const first = await names.first().textContent();
		const box = await page.locator(".stage canvas").boundingBox();
		await page.mouse.move(box.x + 100, box.y + 100);
		await page.keyboard.down("Shift");
		await page.mouse.wheel(0, 10_000_000);
		await page.keyboard.up("Shift");
		await until("others are seen", async () => (await names.first().textContent()) !== first);
		await isShort();
		await until("they are drawn", async () => Object.keys(await colours(page)).length > 3);
		await shot(page, "many-last");
		await page.keyboard.press("/");
		await page.keyboard.type("web-3");
		await until("lanes are filtered", async () => /web-3/.test(await names.first().textContent()));
		await isShort();
		// The filter stays when its field is left.
		await page.keyboard.press("Escape");
		assert.equal(await page.locator("#search").inputValue(), "web-3");
		await page.locator("#search").fill("");
		await page.locator("#search").blur();
		await page.keyboard.press("Control+f");
		await page.locator(".find input:focus").waitFor();
		await page.keyboard.type("epoll");
		await until("it is found", async () =>
			/[1-9][\d,]* found/.test(await page.locator(".find [role=status]").textContent()),
		);
		await page.keyboard.press("Enter");
		await page.waitForURL(/selected=|marks=/);
		await shot(page, "many-found");
	},
};
