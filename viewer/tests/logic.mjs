// SPDX-License-Identifier: MIT OR Apache-2.0
// Tests of what needs no browser: `node logic.mjs`. The suite runs it (tests/suite/tests/viewer.rs).
import assert from "node:assert/strict";
import test from "node:test";
import { build } from "esbuild";

/** A file of the viewer, as a module. */
async function load(name) {
	const entry = new URL(`../src/${name}`, import.meta.url).pathname;
	const built = await build({ entryPoints: [entry], bundle: true, format: "esm", write: false, jsx: "automatic" });
	return import(`data:text/javascript;base64,${Buffer.from(built.outputFiles[0].contents).toString("base64")}`);
}

const { read, write, START } = await load("address.ts");
const { colourOf } = await load("colours.ts");
const { COMMANDS, keyOf } = await load("commands.ts");
const { flagAt } = await load("flags.ts");
const { laneKey, laneOf } = await load("notes.tsx");
const { Pinch } = await load("pinch.ts");
const { binsOf, heightsOf, measure, MEANINGS, scaleText, sumRow, topOf } = await load("counters.ts");
const { handovers } = await load("flow.ts");
const { Lanes } = await load("rows.ts");
const { opened, revealed, timeOf } = await load("places.ts");
const { quoted } = await load("queries.ts");
const { compare, measured, said, tablesOf } = await load("tables.tsx");

test("an address has all that is shown", () => {
	const shown = {
		...START,
		page: "events",
		where: 'ret < 0 && name == "a&b"',
		at: 12,
		range: { begin: 1, end: 20 },
		view: "flow",
		group: "cgroup",
		order: "first",
		height: "tall",
		hidden: [4, 7],
		hiddenGroups: ["c/a,b%", "kernel"],
		closed: ["p12"],
		analysis: "iotop",
		find: "open & close",
		by: "fields",
		sql: "SELECT '#&+%' FROM events\nLIMIT 1",
	};
	assert.deepEqual(read(write(shown)), shown);
	assert.deepEqual(read("#page=nothing&at=x&range=9,1&group=x&order=&height=9&closed=%25zz"), START);
});

test("numbers mean the same whether they come as columns or one by one", () => {
	const amounts = {
		kind: "pieces",
		begin: Float64Array.of(5, 12, 17),
		duration: Float64Array.of(0, 0, 0),
		classes: Uint8Array.of(10, 10, 10),
		values: Float64Array.of(100, 40, 60),
	};
	const bins = binsOf(amounts, 3, 10);
	assert.deepEqual([...bins.total], [100, 100, Number.NaN]);
	assert.deepEqual([...bins.amounts], [1, 2, 0]);
	assert.deepEqual([bins.least[1], bins.most[1]], [40, 60]);
	const numbers = new Map([
		[0, { amounts: 1, least: 100, most: 100, total: 100 }],
		[1, { amounts: 2, least: 40, most: 60, total: 100 }],
	]);
	const columns = { kind: "columns", masks: Uint16Array.of(1024, 1024, 1), shares: Uint8Array.of(1, 1, 255), numbers };
	const same = binsOf(columns, 3, 10);
	assert.deepEqual([...same.total], [...bins.total]);
	assert.deepEqual([...same.unknown], [0, 0, 1]);
	// 100 bytes in 10 ns.
	assert.equal(heightsOf(bins, MEANINGS.sent, 10).mean[0], 1e10);
	// A level that lasts longer counts more, and what was before the tile counts in it.
	const levels = {
		kind: "pieces",
		begin: Float64Array.of(-5, 2),
		duration: Float64Array.of(7, 8),
		classes: Uint8Array.of(10, 10),
		values: Float64Array.of(1000, 2000),
	};
	const level = binsOf(levels, 2, 10);
	assert.deepEqual([...level.total], [1800, Number.NaN]);
	assert.deepEqual([level.least[0], level.most[0], level.amounts[0]], [1000, 2000, 0]);
});

test("numbers of a range are summed", () => {
	const values = { amounts: 3, least: "60", most: "1500", total: "2048" };
	assert.deepEqual(sumRow("eth0 sent", { values, ns: {} }, MEANINGS.sent, 5e8), {
		lane: "eth0 sent",
		count: 3,
		total: "2.00 KiB",
		mean: "4.00 KiB/s",
		smallest: "60 B",
		largest: "1.46 KiB",
	});
	// 1 GHz for 10 ns, 2 GHz for 30 ns, and unknown for the rest.
	const levels = { amounts: 0, least: "1000000", most: "2000000", total: "70000000" };
	const row = sumRow("CPU 0 frequency", { values: levels, ns: { value: 40, unknown: 60 } }, MEANINGS.frequency, 100);
	assert.deepEqual([row.mean, row.count, row.total], ["1.75 GHz", null, null]);
	assert.equal(sumRow("eth0 sent", { ns: {} }, MEANINGS.sent, 100), null);
});

test("numbers have units and round scales", () => {
	assert.equal(measure(2_400_000_000, "Hz"), "2.40 GHz");
	assert.equal(measure(1500, "B"), "1.46 KiB");
	assert.equal(measure(60, "B"), "60 B");
	assert.equal(measure(0.25, "B"), "0.25 B");
	assert.equal(topOf(2_400_000_000, "Hz"), 3_000_000_000);
	assert.equal(topOf(610 * 1024, "B"), 800 * 1024);
	assert.equal(topOf(900 * 1024, "B"), 1024 * 1024);
	assert.equal(topOf(0, "B"), 1);
	assert.equal(scaleText(3e9, MEANINGS.frequency), "3 GHz");
	assert.equal(scaleText(1536, MEANINGS.sent), "1.5 KiB/s");
	assert.equal(scaleText(100 * 1024, MEANINGS.sent), "100 KiB/s");
});

/** Lanes as the server lists them, with what a test wants of them. */
function lanesOf(some) {
	const lane = (one, id) => ({ id, pieces: 1, busy_ns: "0", first_ns: String(1e18 + id), is_unknown: false, ...one });
	return new Lanes(some.map(lane), 0, true);
}

const thread = (tid, pid, name, busy, more) => ({
	kind: "thread",
	tid,
	pid,
	process: pid,
	name,
	busy_ns: String(busy),
	...more,
});

/** Rows as text, with how deep they lie. */
function shownRows(lanes, choice) {
	const nothing = { filter: "", group: "process", order: "busy", height: "normal" };
	const sets = { pinned: new Set(), open: new Set(), hidden: new Set(), hiddenGroups: new Set(), closed: new Set() };
	return lanes
		.rows({ ...nothing, ...sets, ...choice })
		.map((row) => (row.lane ? `${row.isMember ? "  " : ""}${row.isInner ? "- " : ""}${row.title}` : `${row.title}:`));
}

test("control passes from thread to thread and to interrupts, not by way of nobody", () => {
	const labels = new Map([
		[1, { text: "one", lane: 10 }],
		[2, { text: "two", lane: 20 }],
		[3, { text: "timer", lane: null }],
	]);
	const [idle, running, interrupted] = [1, 2, 5];
	const pieces = [
		[-10, 20, running, 1],
		[10, 5, running, 2],
		[15, 5, interrupted, 3],
		[20, 5, running, 2],
		[25, 1, interrupted, 3],
		[26, 4, running, 1],
		[30, 10, idle, 0],
		[40, 10, running, 1],
		// Unknown in between.
		[60, 10, running, 2],
		[70, 50, running, 1],
	];
	const column = (place) => pieces.map((piece) => piece[place]);
	const data = { kind: "pieces", begin: column(0), duration: column(1), classes: column(2), what: column(3) };
	assert.deepEqual(handovers(data, labels, new Map([["timer", 30]]), 65), [
		{ ns: 10, from: 10, to: 20 },
		{ ns: 15, from: 20, to: 30 },
		{ ns: 20, from: 30, to: 20 },
		{ ns: 25, from: 20, to: 30 },
		{ ns: 26, from: 30, to: 10 },
		{ ns: 26, from: 20, to: 10 },
	]);
});

test("lanes are grouped, ordered and hidden", () => {
	const lanes = lanesOf([
		{ kind: "cpu", cpu: 1 },
		{ kind: "cpu", cpu: 0 },
		thread(10, 10, "server", 5, { uid: 0, cgroup: "/a" }),
		thread(11, 10, "worker", 50, { uid: 0, cgroup: "/a" }),
		thread(20, 20, "lonely", 30, { uid: 1000, cgroup: "/b" }),
		thread(30, 30, "kthread", 1, { is_kernel: true }),
		{ kind: "counter", quantity: "frequency", cpu: 0 },
		{ kind: "counter", quantity: "received", name: "eth0" },
		{ kind: "device", name: "sda" },
		{ kind: "counter", quantity: "read", of: 8 },
		thread(12, 10, "ghost", 0, { is_unknown: true }),
	]);
	const cpus = ["CPU 0", "- frequency", "CPU 1"];
	const rest = ["Block devices:", "  sda", "  - read", "Network:", "  eth0 received"];
	const all = (...threads) => [...cpus, ...threads, ...rest];
	// A process with one thread is that thread.
	assert.deepEqual(
		shownRows(lanes, {}),
		all("server:", "  worker", "  server", "lonely", "Kernel threads:", "  kthread"),
	);
	assert.deepEqual(
		shownRows(lanes, { order: "name" }),
		all("Kernel threads:", "  kthread", "lonely", "server:", "  server", "  worker"),
	);
	assert.deepEqual(
		shownRows(lanes, { group: "user", order: "id" }),
		all("root:", "  server", "  worker", "User 1000:", "  lonely", "Unknown user:", "  kthread"),
	);
	assert.deepEqual(
		shownRows(lanes, { group: "cgroup", order: "first" }),
		all("/a:", "  server", "  worker", "/b:", "  lonely", "Unknown control group:", "  kthread"),
	);
	assert.deepEqual(shownRows(lanes, { group: "none" }).slice(3), [
		"worker",
		"lonely",
		"server",
		"kthread",
		"sda",
		"- read",
		"eth0 received",
	]);
	assert.deepEqual(
		shownRows(lanes, {
			closed: new Set(["p10", "devices", "network"]),
			hidden: new Set([4, 6]),
			hiddenGroups: new Set(["kernel"]),
		}),
		["CPU 0", "CPU 1", "server:", "Block devices:", "Network:"],
	);
	// A pinned lane is above all, and not below its heading.
	assert.deepEqual(shownRows(lanes, { pinned: new Set([3]), filter: "serv" }), ["worker", "server:", "  server"]);
	assert.ok(shownRows(lanes, { filter: "ghost" }).includes("  ghost"));
});

test("20,000 lanes are arranged quickly", () => {
	const some = [];
	for (let number = 0; number < 20_000; number++) {
		some.push(thread(number + 1, Math.floor(number / 7) + 1, `thread ${number}`, number % 977));
	}
	const lanes = lanesOf(some);
	// The machine may be busy with other things: the quickest counts.
	const took = ["busy", "name", "id", "first", "busy", "name"].map((order) => {
		const begin = performance.now();
		shownRows(lanes, { order });
		return performance.now() - begin;
	});
	assert.ok(Math.min(...took) < 500, `${took} ms`);
});

// Reports have the same: crates/cli/src/report/colours.rs.
test("a name always has the same colour", () => {
	assert.deepEqual(["", "sh", "postgres", "kworker/0:1", "é漢😀"].map(colourOf), [
		[0, 130, 95],
		[176, 75, 8],
		[60, 110, 130],
		[176, 75, 8],
		[155, 78, 128],
	]);
});

test("times are time stamps or nanoseconds", () => {
	assert.equal(timeOf("1795837294206911501"), 1795837294206911501n);
	assert.equal(timeOf("2026-11-28T03:41:34.206911501Z"), 1795837294206911501n);
	assert.equal(timeOf("2026-11-28T03:41:34.2"), 1795837294200000000n);
	assert.equal(timeOf("1970-01-01T00:00:00Z"), 0n);
	for (const text of ["", "x", "-1", "2026-13-28T03:41:34Z", "2026-11-28", "1.5"])
		assert.equal(timeOf(text), null, text);
});

test("a place in the timeline lies within the trace", () => {
	const whole = { begin: 0, end: 1_000_000 };
	const lanes = {
		all: [{ id: 3, kind: "cpu", cpu: 1 }],
		ofThread: (tid) => (tid === 7 ? { id: 5, kind: "thread" } : undefined),
	};
	const begin = opened({ at: 0, tid: 7 }, START, whole, lanes);
	assert.deepEqual(begin.span, { begin: 0, end: 200_000 });
	assert.deepEqual([begin.selected, begin.pinned, begin.marks], [{ lane: 5, at: 0 }, [5], []]);
	assert.deepEqual(opened({ at: 1_000_000, cpu: 1 }, START, whole, lanes).span, { begin: 800_000, end: 1_000_000 });
	assert.deepEqual(opened({ at: 500_000, duration: 9e9, tid: 7 }, START, whole, lanes).span, whole);
	// The idle thread is that of a CPU; a time alone is marked.
	assert.deepEqual(opened({ at: 9, tid: 0, cpu: 1 }, START, whole, lanes).selected, { lane: 3, at: 9 });
	assert.deepEqual(opened({ at: 9 }, { ...START, marks: [4] }, whole, lanes).marks, [4, 9]);
});

test("a match is moved to only if it is not seen, and its lane is shown", () => {
	const whole = { begin: 0, end: 1000 };
	const lane = { id: 4, kind: "calls", of: 3 };
	const rows = ({ filter, open }) => (filter === "" && open.has(3) ? [{ lane }] : []);
	const groups = () => new Map([[3, { key: "p7" }]]);
	const lanes = { get: (id) => (id === 4 ? lane : undefined), rows, groups };
	const hiding = { hidden: [3, 9], hiddenGroups: ["p7", "p8"], closed: ["p7"] };
	const shown = { ...START, ...hiding, span: { begin: 0, end: 100 }, filter: "cpu" };
	const near = revealed(4, 50, shown, whole, lanes);
	assert.deepEqual([near.span, near.open, near.filter, near.selected], [shown.span, [3], "", { lane: 4, at: 50 }]);
	// Whatever hides it gives it free.
	assert.deepEqual([near.hidden, near.hiddenGroups, near.closed], [[9], ["p8"], []]);
	assert.deepEqual(revealed(4, 500, shown, whole, lanes).span, { begin: 450, end: 550 });
	assert.deepEqual(revealed(null, 500, shown, whole, lanes).marks, [500]);
});

test("keys have one command each", () => {
	const keys = COMMANDS.flatMap(({ keys }) => keys);
	assert.equal(new Set(keys).size, keys.length);
	const none = { ctrlKey: false, metaKey: false, altKey: false, shiftKey: false };
	assert.equal(keyOf({ ...none, key: "w" }), "W");
	assert.equal(keyOf({ ...none, key: "P", ctrlKey: true, shiftKey: true }), "Ctrl+Shift+P");
	// A sign that needs Shift on one keyboard needs none on another.
	assert.equal(keyOf({ ...none, key: "?", shiftKey: true }), "?");
	assert.equal(keyOf({ ...none, key: "F3", shiftKey: true }), "Shift+F3");
});

test("times stay under two fingers, also if these cross", () => {
	const pinch = new Pinch();
	const span = { begin: 0, end: 1000 };
	pinch.down(1, 40, 100, span);
	assert.equal(pinch.moved(1, 30, 100), null);
	pinch.down(2, 60, 100, span);
	// 300 and 600 ns are under them; now at 0 and 100.
	pinch.moved(1, 0, 100);
	assert.deepEqual(pinch.moved(2, 100, 100), { begin: 300, end: 600 });
	const crossed = pinch.moved(2, -50, 100);
	assert.ok(crossed.end > crossed.begin);
	pinch.up(1);
	assert.equal(pinch.moved(2, 10, 100), null);
});

test("a flag is found where it is drawn", () => {
	const span = { begin: 0, end: 1000 };
	const notes = [
		{ begin: 100, end: 100 },
		{ begin: 500, end: 900 },
	];
	const found = [5, 12, 18, 25, 55, 89, 95].map((x) => flagAt(notes, span, 100, x));
	assert.deepEqual(found, [-1, 0, 0, -1, 1, 1, -1]);
});

test("a lane is found again by its name and numbers", () => {
	const all = [
		{ id: 0, kind: "cpu", cpu: 0 },
		{ id: 1, kind: "thread", tid: 7, name: "worker" },
		{ id: 2, kind: "calls", of: 1 },
		{ id: 3, kind: "spans", tid: 7, depth: 0, name: "" },
	];
	const lanes = { all, get: (id) => all[id] };
	const keys = all.map(({ id }) => laneKey(id, lanes));
	assert.deepEqual(keys, ["cpu 0", "thread 7 worker", "calls of thread 7 worker", "spans 7 0"]);
	assert.deepEqual(
		keys.map((key) => laneOf(key, lanes)?.id),
		[0, 1, 2, 3],
	);
	assert.equal(laneOf("thread 8 worker", lanes), undefined);
});

test("names are quoted where SQL needs it", () => {
	assert.deepEqual(["begin_ns", "end", "shop:order", 'a"b', "Tea"].map(quoted), [
		"begin_ns",
		'"end"',
		'"shop:order"',
		'"a""b"',
		"Tea",
	]);
});

test("rows sort by value, and absent values come last", () => {
	const sorted = (keys, isDescending) => keys.toSorted((one, other) => compare(one, other, isDescending));
	assert.deepEqual(sorted([10n, null, 9, 2.5], false), [2.5, 9, 10n, null]);
	assert.deepEqual(sorted([10n, null, 9, 2.5], true), [10n, 9, 2.5, null]);
	assert.deepEqual(sorted(["cpu10", "b", "cpu9", 3], false), [3, "b", "cpu9", "cpu10"]);
});

test("numbers have the units of their names", () => {
	assert.equal(measured("total_ns", 1500), "1.500 µs");
	assert.equal(measured("sum(duration_ns)", 1500), "1.500 µs");
	assert.equal(measured("read_bytes", 1536), "1.50 KiB");
	assert.equal(measured("on_cpu_percent", 5.57), "5.6");
	assert.equal(measured("tid", 23329), "23329");
	assert.equal(measured("count", 767302), "767,302");
});

test("a list of times says whose they are", () => {
	const behind = [
		{ name: "gzip (7)", ns: 62_000_000 },
		{ name: "its own threads", ns: 1500 },
	];
	assert.equal(said("behind", behind), "gzip (7) 62.00 ms, its own threads 1.500 µs");
	assert.equal(said("behind", []), "");
	assert.equal(said("behind", null), "");
	assert.equal(said("found", [{ name: "gzip" }]), '[{"name":"gzip"}]');
});

test("tables are the lists of rows in an answer", () => {
	const answer = {
		analysis: "a",
		findings: [{ kind: "k" }],
		notes: ["n"],
		cpus: [{ cpu: 0 }],
		by_file: [{ path: "p" }],
		none: [],
	};
	assert.deepEqual(
		tablesOf(answer).map(({ title }) => title),
		["CPUs", "By file"],
	);
});
