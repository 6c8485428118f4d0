// SPDX-License-Identifier: MIT OR Apache-2.0
// Times as people read them.

const UNITS = [
	["s", 1e9],
	["ms", 1e6],
	["µs", 1e3],
	["ns", 1],
] as const;

/** The largest unit that a duration has at least one of, and how many ns it is. */
export const durationUnit = (ns: number): (typeof UNITS)[number] =>
	UNITS.find(([, size]) => Math.abs(ns) >= size) ?? UNITS[3];

/** How long something takes whose times come from the server. */
export const lengthOf = ({ begin_ns, end_ns }: { begin_ns: string; end_ns: string }): number =>
	Number(BigInt(end_ns) - BigInt(begin_ns));

/** `1.25 ms` */
export function duration(ns: number): string {
	const [unit, size] = durationUnit(ns);
	const value = ns / size;
	const digits = unit === "ns" ? 0 : Math.abs(value) >= 100 ? 1 : Math.abs(value) >= 10 ? 2 : 3;
	return `${value.toFixed(digits)} ${unit}`;
}

/** `+1.234567 s`, with as many digits as a step needs. */
export function moment(ns: number, step: number): string {
	const digits = Math.min(9, Math.max(0, Math.ceil(-Math.log10(step / 1e9) - 1e-9)));
	return `${ns < 0 ? "-" : "+"}${Math.abs(ns / 1e9).toFixed(digits)} s`;
}

/** A step between marks of an axis: 1, 2 or 5 times a power of ten, not smaller than `least`. */
export function niceStep(least: number): number {
	const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
	return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least) ?? 10 * power;
}
