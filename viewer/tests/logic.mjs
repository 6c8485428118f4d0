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

const { read, write, START, NONE_OWN } = await load("address.ts");
const { meantBy, pinnedOf } = await load("changes.ts");
const { colourOf } = await load("colours.ts");
const { COMMANDS, keyOf } = await load("commands.ts");
const { completions } = await load("filters.ts");
const { flagAt } = await load("flags.ts");
const { laneKey, laneOf } = await load("notes.tsx");
const { aligned, exchanged, nsOf, ofSecond, otherOf, placed, secondOf } = await load("pair.ts");
const { Pinch } = await load("pinch.ts");
const { binsOf, heightsOf, measure, MEANINGS, scaleText, sumRow, topOf } = await load("counters.ts");
const { FLAMES, flameColour, graphOf, layoutOf, linesOf, matchesOf, stepTo } = await load("flame.ts");
const { handovers } = await load("flow.ts");
const { canEnd, ICONS, iconOf } = await load("icons.ts");
const { choiceOf, Lanes } = await load("rows.ts");
const { opened, revealed, timeOf } = await load("places.ts");
const { chosenOf, colourPlaces, fieldsOf, pointsOf, stepsOf, tickTexts, valueText } = await load("plotted.ts");
const { quoted } = await load("queries.ts");
const { analysisOf, compare, measured, said } = await load("tables.tsx");

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
		result: "plot",
		plotX: "date_bin(a, b)",
		plotted: ["count(*)", "a,b%"],
		other: 0,
		offset: -1_500_000,
		sums: "per-second",
		second: {
			...NONE_OWN,
			selected: { lane: 3, at: 12 },
			last: 3,
			pinned: [3],
			open: [3],
			closed: ["p,1"],
			marks: [-4],
		},
		flame: "off_cpu",
		flameOf: 3,
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
		.map((row) => `${"  ".repeat(row.level)}${row.lane ? `${row.isInner ? "- " : ""}${row.title}` : `${row.title}:`}`);
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

test("icons say what a thread begins to do", () => {
	const [unknown, user, kernel, interrupted, runnable, blocked, stopped] = [0, 3, 4, 5, 6, 7, 8];
	const pieces = [
		[runnable, 0, "ready"],
		// As a thread of the kernel, or on in the call that it waited in.
		[kernel, 0, "run"],
		[user, 0, "run"],
		[kernel, 1, "call"],
		[interrupted, 2, "interrupt"],
		[kernel, 1, "run"],
		[blocked, 1, "wait"],
		[runnable, 0, "ready"],
		[kernel, 1, "run"],
		[user, 0, "run"],
		[kernel, 1, "call"],
		[stopped, 0, "stop"],
		[unknown, 0, null],
		[user, 0, "run"],
	];
	const classes = Uint8Array.from(pieces, ([number]) => number);
	const begin = Float64Array.from(pieces, (_, index) => 10 * index);
	const duration = Float64Array.from(pieces, () => 10);
	const data = { kind: "pieces", begin, duration, classes, what: Uint32Array.from(pieces, ([, what]) => what) };
	assert.deepEqual(
		pieces.map((_, index) => iconOf(data, index)),
		pieces.map(([, , icon]) => icon),
	);
	// What came before is not known.
	assert.equal(iconOf({ ...data, duration: duration.fill(9) }, 3), "run");
	assert.deepEqual([canEnd(data, 13), canEnd(data, 12), canEnd(data, 6)], [true, false, false]);
	assert.equal(new Set(Object.values(ICONS).map(({ path }) => path)).size, 7);
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
	const cpus = ["CPU 0", "- Frequency", "CPU 1"];
	const rest = ["Block devices:", "  sda", "  - Read", "Network:", "  eth0 received"];
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
		"- Read",
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

test("what has no name is called by its number", () => {
	const lanes = lanesOf([
		thread(10, 10, "", 5),
		thread(11, 10, "", 3),
		{ kind: "calls", of: 0 },
		{ kind: "spans", tid: 10, pid: 10, depth: 0, name: "" },
		{ kind: "spans", tid: 10, pid: 10, depth: 1, name: "" },
		{ kind: "events", tid: 10, pid: 10, name: "" },
		{ kind: "spans", depth: 0, name: "" },
	]);
	assert.deepEqual(shownRows(lanes, { open: new Set([0]) }), [
		"Process 10:",
		"  Thread 10",
		"  - System calls",
		"  - Spans",
		"  - Spans, depth 1",
		"  - Events",
		"  Thread 11",
		"Unknown thread",
	]);
	assert.deepEqual([lanes.name(2), lanes.name(3)], ["System calls of Thread 10", "Thread 10"]);
	// The number is not repeated behind the title.
	const noteOf = (name) =>
		lanesOf([thread(10, 10, name, 5), thread(11, 10, "", 3)])
			.groups("process")
			.get(0).note;
	assert.deepEqual([noteOf(""), noteOf("server")], ["", "10"]);
});

test("processes are below those that they come from", () => {
	const lanes = lanesOf([
		thread(1, 1, "init", 1, { parent_pid: 0 }),
		thread(10, 10, "shell", 5, { parent_pid: 1 }),
		thread(20, 20, "make", 10, { created_by: 1, parent_pid: 10 }),
		thread(21, 20, "helper", 40, { created_by: 2, parent_pid: 10 }),
		thread(30, 30, "cc", 200, { created_by: 2, parent_pid: 20 }),
		thread(31, 31, "cc", 100, { created_by: 3, parent_pid: 20 }),
		thread(40, 40, "server", 50, { parent_pid: 1 }),
		thread(50, 50, "kthread", 1, { is_kernel: true, parent_pid: 2 }),
		thread(60, 60, "stray", 500, { parent_pid: 999 }),
	]);
	const tree = (choice) => shownRows(lanes, { group: "tree", ...choice });
	// What is below one counts for it.
	assert.deepEqual(tree({}), [
		"stray",
		"init:",
		"  init",
		"  shell:",
		"    shell",
		"    make:",
		"      helper",
		"      make",
		"      cc",
		"      cc",
		"  server",
		"Kernel threads:",
		"  kthread",
	]);
	// What is looked for is shown with all that it comes from.
	assert.deepEqual(tree({ filter: "31" }), ["init:", "  shell:", "    make:", "      cc"]);
	assert.deepEqual(tree({ closed: new Set(["p10"]), hiddenGroups: new Set(["kernel"]) }), [
		"stray",
		"init:",
		"  init",
		"  shell:",
		"  server",
	]);
	assert.deepEqual(
		lanes.groupsOf(4, "tree").map(({ key }) => key),
		["p20", "p10", "p1"],
	);
	const rows = lanes.rows(choiceOf({ ...START, group: "tree" }));
	const about = rows.filter(({ lane }) => !lane).map(({ title, cpuNs, count }) => [title, cpuNs, count]);
	assert.deepEqual(about.slice(0, 3), [
		["init", 406, 7],
		["shell", 355, 5],
		["make", 350, 4],
	]);
	// In the list of processes, it is as if the tree had never been shown.
	assert.deepEqual(shownRows(lanes, {}).slice(0, 3), ["stray", "cc", "cc"]);
});

test("processes that come from themselves come from nowhere", () => {
	const some = [thread(1, 1, "one", 1, { parent_pid: 2 }), thread(2, 2, "two", 1, { parent_pid: 1 })];
	assert.deepEqual(shownRows(lanesOf(some), { group: "tree" }), ["two:", "  two", "  one"]);
	const self = lanesOf([thread(1, 1, "one", 1, { parent_pid: 1 })]);
	assert.deepEqual(shownRows(self, { group: "tree" }), ["one"]);
	// An id that was used again: the last process before that had it.
	const used = ["first", "second"].map((name, at) =>
		thread(7, 7, name, 1, { process: at, first_ns: `${100 + 20 * at}` }),
	);
	const child = thread(8, 8, "child", 1, { parent_pid: 7, first_ns: "110" });
	assert.deepEqual(shownRows(lanesOf([used[0], child, used[1]]), { group: "tree", order: "first" }), [
		"first:",
		"  first",
		"  child",
		"second",
	]);
	// As deep as a trace may say.
	const deep = lanesOf(
		Array.from({ length: 20_000 }, (_, number) => thread(number + 1, number + 1, "p", 1, { parent_pid: number })),
	);
	assert.equal(deep.rows(choiceOf({ ...START, group: "tree" })).length, 2 * 20_000 - 1);
});

test("twenty times as many lanes take far less than the square of it to arrange", () => {
	const arranged = (count, times) => {
		const some = [];
		for (let number = 0; number < count; number++) {
			some.push(thread(number + 1, Math.floor(number / 7) + 1, `thread ${number}`, number % 977));
		}
		const lanes = lanesOf(some);
		// In CPU time, since the machine may be busy with other things; the quickest counts, since the first ones are not compiled yet.
		const orders = ["busy", "name", "id", "first"];
		const took = Array.from({ length: times }, (_, time) => {
			const begin = process.cpuUsage();
			shownRows(lanes, { order: orders[time % orders.length] });
			const { user, system } = process.cpuUsage(begin);
			return user + system;
		});
		return Math.min(...took);
	};
	const [few, many] = [arranged(1_000, 100), arranged(20_000, 8)];
	assert.ok(many < 100 * few, `${few} and ${many} µs`);
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
	const groupsOf = (id) => (id === 3 ? [{ key: "p7" }] : []);
	const lanes = { get: (id) => (id === 4 ? lane : undefined), rows, groupsOf };
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
		analysisOf(answer).tables.map(({ title }) => title),
		["CPUs", "By file"],
	);
});

test("the second timeline has its own lanes, and the times of both", () => {
	const own = { ...NONE_OWN, pinned: [9] };
	const shown = { ...START, span: { begin: 100, end: 200 }, pinned: [1], other: 1, offset: 30, second: own };
	const second = secondOf(shown);
	assert.deepEqual([second.span, second.pinned], [{ begin: 70, end: 170 }, [9]]);
	assert.deepEqual(ofSecond({ span: { begin: 0, end: 10 }, follow: false }, shown), {
		span: { begin: 30, end: 40 },
		follow: false,
	});
	// A selection of the second is none of the first, and a range is one of both.
	const change = ofSecond({ selected: { lane: 4, at: 5 }, range: null, height: "tall" }, shown);
	assert.deepEqual(change, {
		range: null,
		height: "tall",
		second: { ...own, selected: { lane: 4, at: 5 }, last: 4 },
	});
	// Exchanged twice is not at all.
	const other = { ...shown, ...exchanged(shown, 1) };
	assert.deepEqual(
		[other.recording, other.other, other.offset, other.span, other.pinned],
		[1, 0, -30, { begin: 70, end: 170 }, [9]],
	);
	assert.deepEqual({ ...other, ...exchanged(other, 0) }, shown);
	assert.deepEqual(
		[otherOf(START, 1, 2), otherOf(START, 0, 3), otherOf({ ...START, other: 7 }, 0, 3)],
		[0, null, null],
	);
});

test("two times are aligned where the first one is seen", () => {
	const reach = { begin: 0, end: 1000 };
	const seen = aligned(150, 40, { ...START, span: { begin: 100, end: 200 } }, reach);
	assert.deepEqual(seen, { offset: 110, span: { begin: 100, end: 200 } });
	assert.deepEqual(aligned(500, 600, { ...START, span: { begin: 100, end: 200 } }, reach), {
		offset: -100,
		span: { begin: 450, end: 550 },
	});
	const texts = ["+0.000000012 s", "-1.5 ms", "− 2 µs", "3", ".5s", "1 h", "", "9e9 s", "99999999999 s"];
	assert.deepEqual(texts.map(nsOf), [12, -1_500_000, -2000, 3e9, 5e8, null, null, null, null]);
});

test("a row leads to the longest piece in both timelines", () => {
	const wholes = [
		{ begin: 0, end: 1e9 },
		{ begin: 0, end: 2e9 },
	];
	const place = (lane, begin, end) => ({ pinned: [1], open: [1], piece: { lane, begin, end } });
	const found = placed([place(2, 1e8, 1.1e8), place(5, 5e8, 5.4e8)], { ...START, pinned: [8] }, wholes);
	assert.deepEqual(
		[found.selected, found.second.selected],
		[
			{ lane: 2, at: 1e8 },
			{ lane: 5, at: 5e8 },
		],
	);
	assert.deepEqual([found.offset, found.pinned, found.open, found.second.open], [-4e8, [1], [1], [1]]);
	assert.ok(found.span.begin < 1e8 && found.span.end > 1.4e8 && found.span.end - found.span.begin < 1e8);
	// Without a piece in one of them, nothing is moved.
	const nothing = { pinned: [], open: [], piece: null };
	const alone = placed([nothing, place(5, 5e8, 5.4e8)], { ...START, offset: 7 }, wholes);
	assert.deepEqual([alone.offset, alone.selected, alone.second.selected.lane], [7, null, 5]);
	assert.equal(placed([nothing, nothing], START, wholes).span, null);
});

test("a row of differences is about lanes and pieces", () => {
	const lanes = lanesOf([
		{ kind: "cpu", cpu: 0 },
		thread(10, 10, "shop", 5),
		{ kind: "calls", of: 1 },
		thread(11, 10, "baker", 9),
		thread(20, 20, "baker", 3),
		{ kind: "calls", of: 4 },
		{ kind: "interrupt", name: "timer" },
		{ kind: "device", name: "vda" },
	]);
	const meant = (measure, of, more = {}) => meantBy({ analysis: "ltt", table: "threads", measure, of, ...more }, lanes);
	assert.deepEqual(meant("blocked_ns", { comm: "baker" }), {
		lanes: [3, 4],
		open: [],
		isAny: false,
		pieces: { lanes: [3, 4], classes: ["blocked"] },
	});
	// The longest wait may be for something else.
	assert.equal(meant("timer_ns", { comm: "baker" }).pieces, null);
	assert.deepEqual(meant("switches", { comm: "baker" }).pieces, null);
	// The threads of a process, whatever they are called.
	assert.deepEqual(meant("on_cpu_ns", { comm: "shop" }, { table: "processes" }).lanes, [3, 1]);
	const calls = { analysis: "syscallstats", table: "syscalls" };
	assert.deepEqual(meant("total_ns", { comm: "baker", syscall: "read" }, calls), {
		lanes: [4],
		open: [4],
		isAny: false,
		pieces: { lanes: [5], name: "read" },
	});
	const any = meant("total_ns", { syscall: "read" }, calls);
	assert.deepEqual([any.isAny, any.pieces], [true, { lanes: [2, 5], name: "read" }]);
	assert.deepEqual(meant("total_ns", { comm: "baker", syscall: "read" }, { analysis: "blocked" }).pieces, {
		lanes: [3, 4],
		classes: ["blocked"],
		name: "read",
	});
	assert.deepEqual(meant("idle_ns", { cpu: "CPU 0" }).pieces, { lanes: [0], classes: ["idle"] });
	assert.deepEqual(meant("total_ns", { interrupt: "timer" }).pieces, { lanes: [6] });
	assert.deepEqual(meant("total_ns", { device: "vda", operation: "read" }).lanes, [7]);
	assert.equal(meant("total_ns", { comm: "nobody" }), null);
	assert.equal(meant("total_ns", { cause: "timer" }), null);
	assert.deepEqual(pinnedOf([1, 2, 3, 4, 5, 6, 7], 7), [7, 1, 2, 3, 4, 5]);
});

/** Rows as the command prints them. */
const PATHS = [
	["a", 0, 100, 10],
	["b", 1, 60, 20],
	["leaf", 2, 40, 40],
	["leaf", 1, 20, 15],
	["c", 0, 50, 50],
].map(([name, depth, total_ns, self_ns]) => ({
	function: name,
	depth,
	total_ns,
	self_ns,
	calls: 2,
	share_percent: (total_ns / 200) * 100,
}));

test("frames lie below their callers, as wide as they cost", () => {
	const graph = graphOf({ calls: PATHS }, "calls", 9);
	assert.equal(graph.frames[0].total, 150);
	const places = ({ boxes }) =>
		boxes.map(({ index, row, x, width }) => [graph.frames[index].name, row, x, width].join(" "));
	const all = layoutOf(graph, 0, 300);
	assert.deepEqual(places(all), [
		"all 0 0 300",
		"a 1 0 200",
		"b 2 0 120",
		"leaf 3 0 80",
		"leaf 2 120 40",
		"c 1 200 100",
	]);
	assert.deepEqual([all.rows, all.narrow, all.deep, all.callers], [4, 0, 0, 0]);
	const b = layoutOf(graph, 2, 300);
	assert.deepEqual(places(b), ["all 0 0 300", "a 1 0 300", "b 2 0 300", "leaf 3 0 200"]);
	// What is too narrow is counted, with all below it.
	assert.equal(layoutOf(graph, 0, 1.5).narrow, 4);
	assert.deepEqual(linesOf(graph, 3, 2), [
		"40 ns, 26.7 % of all",
		"66.7 % of b",
		"40 ns in the function itself",
		"2 calls",
	]);
	assert.deepEqual(
		graphOf({ events: [{ function: "x", depth: 0, total: 3, self: 3 }] }, "events", 9).frames[0].total,
		3,
	);
});

test("what is not listed of a frame is a frame", () => {
	const graph = graphOf({ calls: PATHS }, "calls", 4);
	const rest = graph.frames
		.filter(({ isRest }) => isRest)
		.map(({ parent, total }) => [graph.frames[parent].name, total]);
	// The share of the most expensive one says what all cost.
	assert.deepEqual(rest, [
		["all", 50],
		["a", 10],
		["leaf", 5],
	]);
	assert.equal(graphOf({ calls: PATHS }, "calls", 5).isCut, false);
});

test("a deep stack is drawn in parts", () => {
	const rows = Array.from({ length: 1000 }, (_, depth) => ({ function: `f${depth}`, depth, total_ns: 7, self_ns: 0 }));
	const graph = graphOf({ calls: rows }, "calls", 2000);
	const top = layoutOf(graph, 0, 100);
	assert.deepEqual([top.boxes.length, top.deep], [200, 801]);
	const middle = layoutOf(graph, 500, 100);
	assert.deepEqual([middle.callers, middle.rows], [493, 207]);
	assert.deepEqual(
		middle.boxes.slice(0, 3).map(({ index, row }) => [index, row]),
		[
			[0, 0],
			[494, 1],
			[495, 2],
		],
	);
});

test("keys lead from frame to frame", () => {
	const graph = graphOf({ calls: PATHS }, "calls", 9);
	const layout = layoutOf(graph, 0, 300);
	const from = (index, ...keys) => keys.reduce((at, key) => stepTo(layout, graph, at, key), index);
	assert.equal(from(0, "ArrowDown"), 1);
	assert.equal(from(0, "ArrowDown", "ArrowDown", "ArrowRight"), 4);
	assert.equal(from(4, "ArrowUp"), 1);
	assert.equal(from(1, "ArrowRight"), 5);
	assert.equal(from(5, "ArrowRight", "ArrowDown"), 5);
	assert.equal(from(3, "Home", "ArrowUp"), 0);
	assert.equal(stepTo(layout, graph, 0, "x"), null);
});

test("a search counts what is called by a match once", () => {
	const graph = graphOf({ calls: PATHS }, "calls", 9);
	const found = matchesOf(graph, " LEAF ");
	assert.deepEqual([[...found.frames], found.total], [[3, 4], 60]);
	assert.equal(matchesOf(graph, "a").total, 100);
	assert.equal(matchesOf(graph, " "), null);
});

test("colours of functions are told apart, and white text on them is legible", () => {
	const linear = (part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4);
	const bright = ([red, green, blue]) => 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
	for (const colour of FLAMES) assert.ok(1.05 / (bright(colour) + 0.05) >= 4.5, String(colour));
	// As somebody without red, without green or without blue cones sees them (Viénot, Brettel and Mollon 1999; tritanopia by Machado 2009).
	const seen = {
		protanopia: [
			[0.11238, 0.88762, 0],
			[0.11238, 0.88762, 0],
			[0.00401, -0.00401, 1],
		],
		deuteranopia: [
			[0.29275, 0.70725, 0],
			[0.29275, 0.70725, 0],
			[-0.02234, 0.02234, 1],
		],
		tritanopia: [
			[1.255528, -0.076749, -0.178779],
			[-0.078411, 0.930809, 0.147602],
			[0.004733, 0.691367, 0.3039],
		],
	};
	const lab = ([red, green, blue]) => {
		const to = (x) => Math.cbrt(Math.max(0, x));
		const [l, m, s] = [
			to(0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue),
			to(0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue),
			to(0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue),
		];
		return [
			0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
			1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
			0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
		];
	};
	for (const [kind, matrix] of Object.entries(seen)) {
		const all = FLAMES.map((colour) => {
			const cones = colour.map(linear);
			return lab(matrix.map((row) => row.reduce((sum, part, at) => sum + part * cones[at], 0)));
		});
		all.forEach((one, place) => {
			for (const other of all.slice(place + 1)) {
				const apart = Math.hypot(...one.map((part, at) => part - other[at]));
				assert.ok(apart > 0.06, `${kind}: ${place} is ${apart} from another`);
			}
		});
	}
	// Names have the same colour in every trace.
	assert.equal(flameColour("main"), "rgb(31 84 148)");
	const used = new Set(Array.from({ length: 200 }, (_, number) => flameColour(`function_${number}`)));
	assert.equal(used.size, FLAMES.length);
});

test("what may come next in a filter is proposed", () => {
	const names = {
		events: new Map([
			["sched_switch", ["prev_comm", "next_tid"]],
			["syscall_exit_read", ["ret", "odd name"]],
		]),
		contexts: ["vtid"],
		threads: ["redis-server", 'a"b'],
	};
	const next = (before) => {
		const found = completions(before, names);
		return found && { from: found.from, labels: found.options.map(({ label }) => label) };
	};
	const common = ["name", "$comm", "$tid", "$pid", "$cpu", "$time", "vtid"];
	const all = [...common, "prev_comm", "next_tid", "ret", "odd name"];
	for (const before of ["", "(", "!", "ret < 0 && ", "!(ret < 0 || "])
		assert.deepEqual(next(before), { from: before.length, labels: all }, before);
	assert.deepEqual(next("ret < 0 && pre"), { from: 11, labels: all });
	assert.equal(next("$c").from, 0);
	// Of the event that is named, first.
	const named = 'name == "syscall_exit_read" && ';
	assert.deepEqual(next(named).labels.slice(0, 3), ["ret", "odd name", "name"]);
	assert.equal(completions(named, names).options.find(({ label }) => label === "odd name").apply, "`odd name`");
	// What a name or a thread's name can be, with quotes unless one is there.
	for (const field of ["name", "$name"]) {
		assert.deepEqual(next(`${field} == "sch`), { from: field.length + 5, labels: [...names.events.keys()] });
		assert.deepEqual(next(`${field} == "`).labels, [...names.events.keys()]);
	}
	const threads = completions("$comm == ", names);
	assert.deepEqual(
		threads.options.map(({ apply }) => apply),
		['"redis-server"', '"a\\"b"'],
	);
	assert.deepEqual(next("ret < 0 && next_comm =~ 're").labels, names.threads);
	// A comparison follows a value, and nothing is proposed where only numbers or words of a text can be.
	assert.deepEqual(next("ret ").labels.slice(0, 2), ["==", "!="]);
	assert.equal(next("ret <").from, 4);
	assert.ok(["|", "^", "<<", ">>"].every((operator) => next("ret |").labels.includes(operator)));
	assert.deepEqual(next("ret ||").labels, all);
	assert.equal(next("ret == "), null);
	assert.equal(next("ret == 4"), null);
	assert.equal(next('filename == "/etc && pre'), null);
	assert.equal(next("ret < 0 "), null);
});

const ORIGIN = 1_700_000_000_000_000_000n;

/** What a plot shows of a result, by default or as chosen. */
function plotOf(columns, rows, x = "", series = []) {
	const fields = fieldsOf({ columns, rows }, ORIGIN, { begin: 0, end: 1e9 });
	const chosen = chosenOf(fields, rows, x, series);
	return { fields, chosen, points: pointsOf(rows, chosen, ORIGIN) };
}

const names = (fields) => fields.map(({ name }) => name);

test("a plot has times on its axis, else numbers that ascend, else texts, else numbers of rows", () => {
	const at = (ns) => String(ORIGIN + BigInt(ns));
	const times = plotOf(
		["name", "duration_ns", "begin_ns", "tid"],
		[
			["read", "5", at(300), "7"],
			["write", "", at(100), "8"],
			["close", "6", "", "9"],
			["open", "4", at(200), "7"],
		],
	);
	assert.deepEqual(
		times.fields.map(({ kind }) => kind),
		["text", "number", "time", "number"],
	);
	// Ids are numbers, but nobody means them.
	assert.deepEqual([times.chosen.x.name, names(times.chosen.series)], ["begin_ns", ["duration_ns"]]);
	assert.deepEqual(names(times.chosen.numbers), ["duration_ns", "tid"]);
	assert.deepEqual(times.points, {
		rows: [1, 3, 0],
		x: [100, 200, 300],
		values: [[null, 4, 5]],
		texts: null,
		leftOut: 1,
	});
	// Parts of the time: the first one begins before the recording. Hours that would be far outside are no times.
	const parts = [
		["2023-11-14T22:13:19.900", "1"],
		["2023-11-14T22:13:20", "2"],
	];
	const binned = plotOf(["t", "count"], parts);
	assert.deepEqual([binned.chosen.x.kind, binned.points.x], ["time", [-100_000_000, 0]]);
	assert.equal(plotOf(["t", "count"], [...parts, ["1970-01-01T00:00:00", "3"]]).chosen.x.kind, "text");
	const buckets = [
		["1", "50", "a"],
		["2", "40", "b"],
		["4", "60", "c"],
	];
	assert.deepEqual(plotOf(["bucket", "events", "what"], buckets).points.x, [1, 2, 4]);
	// What comes after a text is what is counted for it.
	const counts = plotOf(
		["what", "bucket", "events"],
		buckets.map(([bucket, events, what]) => [what, bucket, events]),
	);
	assert.deepEqual(
		[counts.points.texts, names(counts.chosen.series)],
		[
			["a", "b", "c"],
			["bucket", "events"],
		],
	);
	// A CPU has a number as its name.
	const cpus = plotOf(
		["cpu", "events"],
		[
			["0", "10"],
			["1", "20"],
		],
	);
	assert.deepEqual(
		[cpus.points.x, cpus.points.texts],
		[
			[0, 1],
			["0", "1"],
		],
	);
	const one = plotOf(["count(*)"], [["42"]]);
	assert.deepEqual([one.chosen.x, one.points.x, one.points.values], [null, [1], [[42]]]);
	assert.deepEqual(plotOf(["a", "b"], [["x", "y"]]).chosen.series, []);
	const empty = plotOf(["what", "events"], [["", "42"]]);
	assert.deepEqual([empty.chosen.x, names(empty.chosen.series)], [null, ["events"]]);
	assert.equal(plotOf(["what", "events"], [["", "42"]], "what").chosen.x, null);
	assert.deepEqual(plotOf(["events"], []).points, { rows: [], x: [], values: [], texts: null, leftOut: 0 });
});

test("a plot shows the columns that are chosen, as far as the result has them, and at most 8", () => {
	const columns = ["name", ..."abcdefghij"];
	const rows = [["x", ..."0123456789"]];
	const of = (x, series) => plotOf(columns, rows, x, series).chosen;
	assert.deepEqual(names(of("", []).series), [..."abcdefgh"]);
	assert.deepEqual(names(of("b", ["c", "a"]).series), ["a", "c"]);
	assert.equal(of("b", []).x.name, "b");
	assert.equal(of("#", []).x, null);
	assert.equal(of("z", []).x.name, "name");
	assert.equal(of("", ["a", "gone"]).series.length, 8);
	// Each has a colour of its own, and keeps it while others come and go.
	assert.deepEqual(colourPlaces(of("", ["b", "d"])), [1, 3]);
	assert.deepEqual(colourPlaces(of("", ["d"])), [3]);
	assert.deepEqual(colourPlaces(of("", ["a", "b", "i"])), [0, 1, 2]);
});

test("numbers at an axis have one unit and no more digits than they need", () => {
	assert.deepEqual(tickTexts("sum(x.duration_ns)", [0, 500_000, 1_000_000, 1_500_000]), [
		"0",
		"0.5 ms",
		"1 ms",
		"1.5 ms",
	]);
	assert.deepEqual(tickTexts("bytes", [0, 512, 1024]), ["0", "0.5 KiB", "1 KiB"]);
	assert.deepEqual(tickTexts("cpu_percent", [0, 50]), ["0", "50 %"]);
	assert.deepEqual(tickTexts("events", [0, 0.30000000000000004, 20_000]), ["0", "0.3", "20,000"]);
	assert.deepEqual(tickTexts("tid", [10_000]), ["10000"]);
	assert.equal(valueText("busy_percent", 12.34), "12.3 %");
	assert.equal(valueText("sum(io_requests.bytes)", 1536), "1.50 KiB");
	assert.deepEqual(stepsOf("bytes", [1]).slice(0, 3), [1, 2, 4]);
	assert.equal(stepsOf("events", [1, null])[0], 1);
	assert.ok(stepsOf("mean", [0.5]).includes(0.2));
});
