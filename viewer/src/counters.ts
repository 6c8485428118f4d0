// SPDX-License-Identifier: MIT OR Apache-2.0
// Lanes of numbers: what each column of a tile has, in which unit, and how high it is drawn. A level (a frequency) lasts; amounts (bytes) are shown
// as what comes per second, so a column means the same at every zoom.

import type { Columns, Lane, Pieces, Sum } from "./api";
import { CLASSES, type Rgb } from "./colours";
import { duration } from "./time";

const VALUE = CLASSES.indexOf("value");
const UNKNOWN = CLASSES.indexOf("unknown");

type Quantity = NonNullable<Lane["quantity"]>;

interface Meaning {
	isLevel: boolean;
	unit: "Hz" | "B";
	/** What the server's numbers are multiplied with. */
	factor: number;
	/** What each amount is of. */
	one: string;
	colour: Rgb;
}

const IN: Rgb = [0, 130, 150];
const OUT: Rgb = [190, 92, 20];

export const MEANINGS: Record<Quantity, Meaning> = {
	frequency: { isLevel: true, unit: "Hz", factor: 1000, one: "", colour: [126, 98, 178] },
	received: { isLevel: false, unit: "B", factor: 1, one: "packet", colour: IN },
	queued: { isLevel: false, unit: "B", factor: 1, one: "packet", colour: OUT },
	sent: { isLevel: false, unit: "B", factor: 1, one: "packet", colour: OUT },
	read: { isLevel: false, unit: "B", factor: 1, one: "request", colour: IN },
	written: { isLevel: false, unit: "B", factor: 1, one: "request", colour: OUT },
};

/** Of each column. */
export interface Bins {
	/** How many amounts there are. */
	amounts: Uint32Array;
	least: Float64Array;
	most: Float64Array;
	/** The mean of a level, or the sum of amounts. Where nothing is known it is not a number. */
	total: Float64Array;
	/** The share of a column that is unknown: 0 to 1. */
	unknown: Float64Array;
}

function empty(columns: number): Bins {
	return {
		amounts: new Uint32Array(columns),
		least: new Float64Array(columns).fill(Number.POSITIVE_INFINITY),
		most: new Float64Array(columns),
		total: new Float64Array(columns).fill(Number.NaN),
		unknown: new Float64Array(columns),
	};
}

/** What a tile with so many columns of a width has. */
export function binsOf(data: Columns | Pieces, columns: number, columnNs: number): Bins {
	const bins = empty(columns);
	if (data.kind === "columns") {
		let next = 0;
		for (let column = 0; column < data.masks.length; column++) {
			for (let number = 0; data.masks[column]! >> number !== 0; number++) {
				if (((data.masks[column]! >> number) & 1) === 0) continue;
				const share = data.shares[next++]! / 255;
				if (number === UNKNOWN) bins.unknown[column] = share;
			}
		}
		for (const [column, numbers] of data.numbers) {
			bins.amounts[column] = numbers.amounts;
			bins.least[column] = numbers.least;
			bins.most[column] = numbers.most;
			bins.total[column] = numbers.total;
		}
		return bins;
	}
	const known = new Float64Array(columns);
	for (let index = 0; index < data.begin.length; index++) {
		const [begin, length, value] = [data.begin[index]!, data.duration[index]!, data.values[index]!];
		const isValue = data.classes[index] === VALUE;
		const first = Math.floor(begin / columnNs);
		if (isValue && length === 0 && first >= 0 && first < columns) bins.amounts[first]!++;
		const last = length === 0 ? first : Math.ceil((begin + length) / columnNs) - 1;
		for (let column = Math.max(0, first); column <= Math.min(columns - 1, last); column++) {
			const ns = Math.min(begin + length, (column + 1) * columnNs) - Math.max(begin, column * columnNs);
			if (!isValue) {
				bins.unknown[column]! += ns / columnNs;
				continue;
			}
			bins.least[column] = Math.min(bins.least[column]!, value);
			bins.most[column] = Math.max(bins.most[column]!, value);
			const before = Number.isNaN(bins.total[column]) ? 0 : bins.total[column]!;
			known[column]! += ns;
			bins.total[column] = before + (length === 0 ? value : value * ns);
		}
	}
	for (let column = 0; column < columns; column++) if (known[column]! > 0) bins.total[column]! /= known[column]!;
	return bins;
}

/** How high columns are, in the unit: a level, or an amount per second. `high`: the largest level in each. */
export function heightsOf(
	bins: Bins,
	{ isLevel, factor }: Meaning,
	columnNs: number,
): { high: Float64Array; mean: Float64Array } {
	const times = isLevel ? factor : (factor * 1e9) / columnNs;
	const mean = bins.total.map((total) => total * times);
	return { mean, high: isLevel ? bins.most.map((most) => most * factor) : mean };
}

const SIZES = {
	Hz: ["Hz", "kHz", "MHz", "GHz", "THz"],
	B: ["B", "KiB", "MiB", "GiB", "TiB", "PiB"],
} as const;

/** `2.40 GHz`, `1.46 KiB` */
export function measure(value: number, unit: Meaning["unit"]): string {
	const base = unit === "B" ? 1024 : 1000;
	const names = SIZES[unit];
	let power = 0;
	while (power + 1 < names.length && value >= base ** (power + 1)) power++;
	const scaled = value / base ** power;
	const digits = power === 0 && Number.isInteger(value) ? 0 : scaled >= 100 ? 0 : scaled >= 10 ? 1 : 2;
	return `${scaled.toFixed(digits)} ${names[power]}`;
}

const STEPS = [1, 10, 100].flatMap((power) => [1, 1.5, 2, 3, 4, 5, 6, 8].map((step) => step * power));

/** The number that the top of a lane stands for: it changes seldom while one moves. */
export function topOf(most: number, unit: Meaning["unit"]): number {
	if (!(most > 0)) return 1;
	const base = unit === "B" ? 1024 : 1000;
	let size = 1;
	while (most >= size * base) size *= base;
	const step = STEPS.find((step) => step * size >= most) ?? base;
	return step * size;
}

const perSecond = ({ isLevel }: Meaning): string => (isLevel ? "" : "/s");

/** `1.5 MiB/s`: a round number, without zeros behind the point. */
export function scaleText(top: number, meaning: Meaning): string {
	const [number, unit] = measure(top, meaning.unit).split(" ");
	return `${Number(number)} ${unit}${perSecond(meaning)}`;
}

/** What people read of a column. */
export function columnText(bins: Bins, column: number, meaning: Meaning, columnNs: number): string[] {
	const { isLevel, unit, factor, one } = meaning;
	const total = bins.total[column] ?? Number.NaN;
	const lines = [];
	if (!Number.isNaN(total)) {
		const [least, most] = [bins.least[column]!, bins.most[column]!];
		if (isLevel) {
			lines.push(measure(total * factor, unit));
			if (least < most) lines.push(`from ${measure(least * factor, unit)} to ${measure(most * factor, unit)}`);
		} else {
			const count = bins.amounts[column]!;
			lines.push(`${measure((total * factor * 1e9) / columnNs, unit)}${perSecond(meaning)}`);
			lines.push(`${measure(total, unit)} in ${count} ${one}${count === 1 ? "" : "s"} within ${duration(columnNs)}`);
		}
	}
	if (bins.unknown[column]! > 0) lines.push("events may be missing");
	return lines;
}

/** A row of a table: what lanes had in a range that is so long, of which a level was known for a part. */
export function sumRow(lane: string, { values, ns }: Sum, { isLevel, unit, factor }: Meaning, length: number) {
	if (!values) return null;
	const total = Number(values.total) * factor;
	const { value: knownNs = 1 } = ns;
	return {
		lane,
		count: isLevel ? null : values.amounts,
		total: isLevel ? null : measure(total, unit),
		mean: isLevel ? measure(total / knownNs, unit) : `${measure((total * 1e9) / length, unit)}/s`,
		smallest: measure(Number(values.least) * factor, unit),
		largest: measure(Number(values.most) * factor, unit),
	};
}

/** What people read of one number. */
export function valueText(value: number, { unit, factor, isLevel }: Meaning): string {
	const exact = !isLevel && value >= 1024 ? ` (${value.toLocaleString("en")} bytes)` : "";
	return `${measure(value * factor, unit)}${exact}`;
}
