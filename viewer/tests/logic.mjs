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
const { opened, timeOf } = await load("places.ts");
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
		sql: "SELECT '#&+%' FROM events\nLIMIT 1",
	};
	assert.deepEqual(read(write(shown)), shown);
	assert.deepEqual(read("#page=nothing&at=x&range=9,1"), START);
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
