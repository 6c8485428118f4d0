// SPDX-License-Identifier: MIT OR Apache-2.0
// Measures the viewer in chromium, for bench/viewer.py: `node measure.mjs paint ADDRESS` or `node measure.mjs frames ADDRESS SECONDS`. Prints JSON.
import assert from "node:assert/strict";
import { chromium } from "playwright-core";

const [what, address, seconds = "20"] = process.argv.slice(2);

/** So high that 60 lanes are seen. */
const WINDOW = { width: 1440, height: 1500 };
/** As people's hands and screens do it. */
const STEP_MS = 16;
const PATIENCE_MS = 120_000;

/**
 * In the page, before its scripts: notes when the first picture of lanes with data was on the screen. Below its axis, a canvas of lanes without data
 * has two colours: its background and that of headings.
 */
function watch() {
	const AXIS = 26;
	const hasData = (canvas) => {
		const [columns, height] = [64, canvas.height - AXIS];
		if (height < 1) return false;
		const copy = new OffscreenCanvas(columns, height).getContext("2d", { willReadFrequently: true });
		copy.imageSmoothingEnabled = false;
		copy.drawImage(canvas, 0, AXIS, canvas.width, height, 0, 0, columns, height);
		const { data } = copy.getImageData(0, 0, columns, height);
		return new Set(new Uint32Array(data.buffer)).size >= 4;
	};
	const look = () => {
		const canvas = document.querySelector(".stage canvas");
		if (canvas && hasData(canvas)) window.painted = performance.now();
		else requestAnimationFrame(look);
	};
	requestAnimationFrame(look);
}

/** Measures the memory of the page and of the worker that draws. */
async function scales(context, page) {
	const session = await context.newCDPSession(page);
	const waiting = new Map();
	const attached = new Promise((resolve) => {
		session.on(
			"Target.attachedToTarget",
			({ sessionId, targetInfo }) => targetInfo.type === "worker" && resolve(sessionId),
		);
	});
	session.on("Target.receivedMessageFromTarget", ({ message }) => {
		const { id, result } = JSON.parse(message);
		waiting.get(id)?.(result);
	});
	await session.send("Target.setAutoAttach", { autoAttach: true, waitForDebuggerOnStart: false, flatten: false });
	const sessionId = await attached;
	let asked = 0;
	const ofWorker = (method) =>
		new Promise((resolve) => {
			const id = ++asked;
			waiting.set(id, resolve);
			void session.send("Target.sendMessageToTarget", { sessionId, message: JSON.stringify({ id, method }) });
		});
	return async () => {
		const both = await Promise.all([session.send("Runtime.getHeapUsage"), ofWorker("Runtime.getHeapUsage")]);
		const bytes = both.map((one) => one.usedSize + one.embedderHeapUsedSize + one.backingStorageSize);
		return bytes[0] + bytes[1];
	};
}

/** From navigation to lanes with data, with an empty cache. */
async function paint(browser) {
	const context = await browser.newContext({ viewport: WINDOW });
	const page = await context.newPage();
	await page.addInitScript(watch);
	await page.goto(`${address}#page=timeline`);
	await page.waitForFunction(() => window.painted !== undefined, null, { timeout: PATIENCE_MS });
	const ms = await page.evaluate(() => window.painted);
	await context.close();
	return { ms };
}

/** Moves of hands, as a list of what is done in each step. */
function* script(box) {
	const middle = { x: box.x + box.width / 2, y: box.y + box.height / 2 };
	for (let round = 0; ; round++) {
		// In, at different places, and out again.
		const x = box.x + box.width * (0.2 + 0.15 * (round % 5));
		for (let step = 0; step < 60; step++) yield (page) => page.mouse.wheel(0, -60);
		// A drag to the left and to the right.
		yield (page) => page.mouse.move(middle.x, middle.y);
		yield (page) => page.mouse.down();
		for (let step = 0; step < 60; step++) {
			const by = box.width * 0.4 * Math.sin((step / 60) * 2 * Math.PI);
			yield (page) => page.mouse.move(middle.x + by, middle.y);
		}
		yield (page) => page.mouse.up();
		yield (page) => page.mouse.move(x, middle.y);
		// Other lanes.
		yield (page) => page.keyboard.down("Shift");
		for (let step = 0; step < 20; step++) yield (page) => page.mouse.wheel(0, 30);
		yield (page) => page.keyboard.up("Shift");
		for (let step = 0; step < 60; step++) yield (page) => page.mouse.wheel(0, 45);
		for (const key of ["d", "d", "a", "w", "s"]) {
			for (let step = 0; step < 6; step++) yield (page) => page.keyboard.press(key);
		}
	}
}

/** How long the work of the main thread takes for each frame, and how far frames are apart, while hands zoom and move. */
async function frames(browser) {
	const context = await browser.newContext({ viewport: WINDOW });
	const page = await context.newPage();
	await page.addInitScript(watch);
	await page.goto(`${address}#page=timeline&group=none`);
	await page.waitForFunction(() => window.painted !== undefined, null, { timeout: PATIENCE_MS });
	const weigh = await scales(context, page);
	const heap = [];
	const [worker] = page.workers();
	const lanes = await page.locator(".stage .name").count();
	const box = await page.locator(".stage canvas").boundingBox();
	await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
	await worker.evaluate(() => {
		performance.clearResourceTimings();
		performance.setResourceTimingBufferSize(100_000);
	});
	await browser.startTracing(page, {
		categories: [
			"disabled-by-default-devtools.timeline",
			"disabled-by-default-devtools.timeline.frame",
			"devtools.timeline",
		],
	});
	const begin = performance.now();
	let weighed = 0;
	for (const move of script(box)) {
		const next = performance.now() + STEP_MS;
		if (next - begin > Number(seconds) * 1000) break;
		await move(page);
		if (next - weighed > 1000) {
			weighed = next;
			heap.push(await weigh());
		}
		await new Promise((resolve) => setTimeout(resolve, next - performance.now()));
	}
	const { traceEvents } = JSON.parse(String(await browser.stopTracing()));
	// Those that were given up because the view went on have no size.
	const replies = await worker.evaluate(() =>
		performance
			.getEntriesByType("resource")
			.filter(({ name, responseStatus }) => /\/api\/\d+\/view$/.test(name) && responseStatus === 200)
			.map(({ requestStart, responseEnd, encodedBodySize }) => ({
				ms: responseEnd - requestStart,
				bytes: encodedBodySize,
			})),
	);
	await context.close();
	const picture_ms = picturesOf(traceEvents);
	return { lanes, heap_bytes: Math.max(...heap), replies, picture_ms, ...workOf(traceEvents) };
}

/** How long the worker takes for each picture, in ms: it draws when a timer says so. */
function picturesOf(events) {
	const isWorker = ({ name, args }) => name === "thread_name" && args.name === "DedicatedWorker thread";
	const threads = new Set(events.filter(isWorker).map(({ pid, tid }) => `${pid} ${tid}`));
	return events
		.filter(({ name, ph, pid, tid }) => name === "TimerFire" && ph === "X" && threads.has(`${pid} ${tid}`))
		.map(({ dur = 0 }) => dur / 1000);
}

/** Of the renderer's main thread, frame by frame, in ms. */
function workOf(events) {
	const isBegin = ({ name }) => name === "BeginMainThreadFrame";
	const begins = new Map();
	for (const event of events.filter(isBegin)) {
		const thread = `${event.pid} ${event.tid}`;
		begins.set(thread, [...(begins.get(thread) ?? []), event.ts]);
	}
	const [thread, times] = [...begins].sort(([, one], [, other]) => other.length - one.length)[0] ?? [];
	assert.ok(times?.length > 2, "chromium's trace has no frames");
	times.sort((one, other) => one - other);
	const tasks = events.filter(
		({ name, ph, pid, tid }) => name === "RunTask" && ph === "X" && `${pid} ${tid}` === thread,
	);
	const work = times.slice(1).map(() => ({ ms: 0, cpu_ms: 0 }));
	let frame = 0;
	for (const { ts, dur = 0, tdur = 0 } of tasks.sort((one, other) => one.ts - other.ts)) {
		// A task that begins a frame begins before the frame's mark.
		while (frame < work.length && times[frame + 1] <= ts + dur) frame++;
		if (frame >= work.length) break;
		if (ts + dur < times[0]) continue;
		work[frame].ms += dur / 1000;
		work[frame].cpu_ms += tdur / 1000;
	}
	const apart = times.slice(1).map((time, index) => (time - times[index]) / 1000);
	return { work_ms: work.map(({ ms }) => ms), work_cpu_ms: work.map(({ cpu_ms }) => cpu_ms), apart_ms: apart };
}

const measures = { paint, frames };
assert.ok(what in measures && address, "usage: node measure.mjs paint|frames ADDRESS [SECONDS]");
const browser = await chromium.launch({
	executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
	args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"],
});
try {
	console.log(JSON.stringify(await measures[what](browser)));
} finally {
	await browser.close();
}
