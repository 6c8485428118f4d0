// SPDX-License-Identifier: MIT OR Apache-2.0
// What a plot of a query's result shows: which column is on the x axis, which columns are drawn, the points, and the texts at an axis. It is drawn
// by plot.tsx.
import type { Rows } from "./api";
import { timeIn, timeOf } from "./places";
import { byteUnit, isIdentifier, isNumeric, measured, unitOf } from "./tables";
import { durationUnit } from "./time";
import type { Span } from "./timeline";

/** More could not be told apart. */
export const SERIES_MAX = 8;
/** On the x axis instead of a column: the number of the row. */
export const ROW_NUMBER = "#";

/** A column of a result. */
export interface Field {
	name: string;
	index: number;
	/** Empty: all of its cells are. */
	kind: "time" | "number" | "text" | "empty";
}

export interface Chosen {
	/** Null: the number of the row. */
	x: Field | null;
	/** What is drawn, in the order of the columns. */
	series: Field[];
	/** What could be drawn. */
	numbers: Field[];
}

/** The points of a plot. */
export interface Points {
	/** The row of each point. */
	rows: number[];
	/** In ascending order: times in ns from the begin of the recording, numbers, or 0, 1, 2 and so on for texts. */
	x: number[];
	/** Of each series; null: the cell is empty. */
	values: (number | null)[][];
	/** Of an axis of texts, and of numbers that only name something, such as CPUs. */
	texts: string[] | null;
	/** Rows that have nothing on the x axis. */
	leftOut: number;
}

/** What the columns hold. The parts into which a query divides the time may begin before the recording. */
export function fieldsOf({ columns, rows }: Rows, origin: bigint, whole: Span): Field[] {
	const length = whole.end - whole.begin;
	const around = { begin: whole.begin - length, end: whole.end + length };
	return columns.map((name, index) => {
		const cells = rows.map((row) => row[index]!).filter(Boolean);
		const isTime = (text: string, span: Span) => timeIn(name, text, origin, span) !== null;
		const areTimes = cells.some((text) => isTime(text, whole)) && cells.every((text) => isTime(text, around));
		const kind = cells.length === 0 ? "empty" : areTimes ? "time" : cells.every(isNumeric) ? "number" : "text";
		return { name, index, kind };
	});
}

/** The columns of an address, as far as the result has them; else those that are probably meant. */
export function chosenOf(fields: Field[], rows: string[][], x: string, series: string[]): Chosen {
	const on =
		x === ROW_NUMBER ? null : (fields.find(({ name, kind }) => name === x && kind !== "empty") ?? axisOf(fields, rows));
	const numbers = fields.filter((field) => field.kind === "number" && field !== on);
	const named = series.map((name) => numbers.find((field) => field.name === name));
	const isKnown = named.length > 0 && named.every((field) => field !== undefined);
	const amounts = numbers.filter(({ name }) => !isIdentifier(name));
	const meant = isKnown ? numbers.filter((field) => named.includes(field)) : amounts.length > 0 ? amounts : numbers;
	return { x: on, series: meant.slice(0, SERIES_MAX), numbers };
}

/** The first column of times; else numbers that ascend, before any text; else the first text; else the number of the row. */
function axisOf(fields: Field[], rows: string[][]): Field | null {
	const time = fields.find(({ kind }) => kind === "time");
	if (time) return time;
	const text = fields.find(({ kind }) => kind === "text") ?? null;
	const before = text ? fields.slice(0, text.index) : fields;
	const ascends = ({ index }: Field) =>
		rows.length > 1 &&
		rows.every((row, at) => row[index] && (at === 0 || Number(row[index]) > Number(rows[at - 1]![index])));
	const hasOthers = fields.filter(({ kind }) => kind === "number").length > 1;
	return (hasOthers && before.find((field) => field.kind === "number" && ascends(field))) || text;
}

export function pointsOf(rows: string[][], { x, series }: Chosen, origin: bigint): Points {
	const areNames = x !== null && (x.kind === "text" || (x.kind === "number" && isIdentifier(x.name)));
	const place = (row: string[], at: number): number | null => {
		if (x === null) return at + 1;
		if (areNames) return at;
		const text = row[x.index]!;
		if (!text) return null;
		return x.kind === "time" ? Number(timeOf(text)! - origin) : Number(text);
	};
	const placed = rows.flatMap((row, index) => {
		const at = place(row, index);
		return at === null ? [] : [{ row, index, at }];
	});
	placed.sort((one, other) => one.at - other.at);
	return {
		rows: placed.map(({ index }) => index),
		x: placed.map(({ at }) => at),
		values: series.map(({ index }) => placed.map(({ row }) => (row[index] ? Number(row[index]) : null))),
		texts: areNames ? placed.map(({ row }) => row[x.index]!) : null,
		leftOut: rows.length - placed.length,
	};
}

/** The place of each series in a palette: that of its column, so that it keeps its colour while others come and go. */
export function colourPlaces({ series, numbers }: Chosen): number[] {
	const taken = new Set<number>();
	return series.map((field) => {
		let place = numbers.indexOf(field) % SERIES_MAX;
		while (taken.has(place)) place = (place + 1) % SERIES_MAX;
		taken.add(place);
		return place;
	});
}

/** `12.5 %` */
export const valueText = (name: string, value: number): string =>
	`${measured(name, value)}${unitOf(name) === "percent" ? " %" : ""}`;

/** The numbers at an axis of a column, all in the same unit. */
export function tickTexts(name: string, ticks: readonly number[]): string[] {
	const most = Math.max(...ticks.map(Math.abs));
	const [unit, size] = unitOfTicks(name, most);
	const said = (value: number) => {
		// Without what comes from computing with fractions.
		const exact = Number((value / size).toPrecision(9));
		return isIdentifier(name) ? String(exact) : exact.toLocaleString("en-US", { maximumSignificantDigits: 9 });
	};
	return ticks.map((value) => (value === 0 ? "0" : `${said(value)}${unit && ` ${unit}`}`));
}

function unitOfTicks(name: string, most: number): readonly [unit: string, size: number] {
	switch (unitOf(name)) {
		case "ns":
			return durationUnit(most);
		case "bytes":
			return byteUnit(most);
		case "percent":
			return ["%", 1];
		default:
			return ["", 1];
	}
}

/** Steps between the marks of an axis of a column: for bytes, powers of two; else 1, 2 and 5 times the powers of ten. */
export function stepsOf(name: string, values: readonly (number | null)[]): number[] {
	if (unitOf(name) === "bytes") return Array.from({ length: 60 }, (_, power) => 2 ** power);
	const first = values.every((value) => value === null || Number.isInteger(value)) ? 0 : -9;
	return Array.from({ length: 20 - first }, (_, at) =>
		[1, 2, 5].map((factor) => Number(`${factor}e${first + at}`)),
	).flat();
}
