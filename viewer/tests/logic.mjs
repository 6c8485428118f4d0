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
const { COMMANDS, keyOf } = await load("commands.ts");
const { flagAt } = await load("flags.ts");
const { laneKey, laneOf } = await load("notes.tsx");
const { Pinch } = await load("pinch.ts");
const { opened, revealed, timeOf } = await load("places.ts");
const { quoted } = await load("queries.ts");
const { compare, measured, tablesOf } = await load("tables.tsx");

test("an address has all that is shown", () => {
	const shown = {
		...START,
		page: "events",
		where: 'ret < 0 && name == "a&b"',
		at: 12,
		range: { begin: 1, end: 20 },
		analysis: "iotop",
		find: "open & close",
		by: "fields",
		sql: "SELECT '#&+%' FROM events\nLIMIT 1",
	};
	assert.deepEqual(read(write(shown)), shown);
	assert.deepEqual(read("#page=nothing&at=x&range=9,1"), START);
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
	const lanes = { get: (id) => (id === 4 ? lane : undefined), rows };
	const shown = { ...START, span: { begin: 0, end: 100 }, filter: "cpu" };
	const near = revealed(4, 50, shown, whole, lanes);
	assert.deepEqual([near.span, near.open, near.filter, near.selected], [shown.span, [3], "", { lane: 4, at: 50 }]);
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
