// SPDX-License-Identifier: MIT OR Apache-2.0
// Draws the viewer for the documentation: `node pictures.mjs ADDRESS FOLDER`. tools/pictures starts the server, on a trace with a lock convoy.
import { chromium } from "playwright-core";

const [address, folder] = process.argv.slice(2);
const browser = await chromium.launch({
	executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
	args: ["--no-sandbox", "--disable-gpu"],
});
try {
	const page = await browser.newPage({ viewport: { width: 1280, height: 640 } });
	await page.goto(address);
	await page.locator(".card", { hasText: "lock convoy" }).waitFor();
	await page.screenshot({ path: `${folder}/viewer-insights.png` });
	await page.locator(".card", { hasText: "lock convoy" }).click();
	await page.locator(".name").first().waitFor();
	// Some milliseconds in the middle, where a wait is long enough to be seen.
	const [, begin, end] = /[#&]range=(\d+)%2C(\d+)/.exec(page.url()) ?? [];
	const middle = Math.round((Number(begin) + Number(end)) / 2);
	const pinned = /[#&]pinned=([^&]*)/.exec(page.url())?.[1] ?? "";
	await page.goto(`${address}#page=timeline&span=${middle - 2_500_000},${middle + 2_500_000}&pinned=${pinned}`);
	await page.reload();
	await page.locator(".name .title").nth(1).click();
	const details = page.locator("section[aria-label=Selection]");
	const isLongWait = async () => {
		const text = await details.locator("dl").textContent();
		return text.includes("futex") && text.includes("Ended by") && /Duration[3-9]\d\d\.\d µs/.test(text);
	};
	for (let left = 300; left > 0 && !(await isLongWait()); left--) {
		await page.keyboard.press(".");
		await page.waitForTimeout(60);
	}
	await page.mouse.move(640, 20);
	await page.waitForTimeout(500);
	await page.screenshot({ path: `${folder}/viewer-timeline.png` });
} finally {
	await browser.close();
}
