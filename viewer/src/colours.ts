// SPDX-License-Identifier: MIT OR Apache-2.0
// Colours: of what lanes do, and of threads. States have the colours of Okabe and Ito ("Color Universal Design", 2008), which people with every
// kind of colour vision tell apart.

/** In the order of the server's numbers (crates/timeline/src/piece.rs). */
export const CLASSES = [
	"unknown",
	"idle",
	"running",
	"user",
	"kernel",
	"interrupted",
	"runnable",
	"blocked",
	"stopped",
	"other",
	"value",
] as const;
export type Class = (typeof CLASSES)[number];

/** What people read. */
export const CLASS_NAMES: Record<Class, string> = {
	unknown: "unknown",
	idle: "idle",
	running: "running",
	user: "running in user space",
	kernel: "running in the kernel",
	interrupted: "interrupted",
	runnable: "waiting for a CPU",
	blocked: "blocked",
	stopped: "stopped",
	other: "active",
	value: "number",
};

export type Rgb = readonly [number, number, number];

export interface Theme {
	name: "light" | "dark";
	background: Rgb;
	/** Every second lane. */
	stripe: Rgb;
	text: Rgb;
	faint: string;
	line: string;
	selection: string;
	/** The critical path. */
	path: string;
	/** Flags of notes. */
	note: string;
	/** Matches of a search. */
	match: string;
	classes: Record<Class, Rgb>;
}

const SHARED = {
	running: [86, 180, 233],
	user: [0, 158, 115],
	kernel: [0, 114, 178],
	interrupted: [230, 159, 0],
	runnable: [213, 94, 0],
	other: [86, 180, 233],
	value: [126, 98, 178],
	stopped: [204, 121, 167],
} as const;

/** Of the series of a plot. */
export const SERIES: readonly Rgb[] = [
	SHARED.kernel,
	SHARED.runnable,
	SHARED.user,
	SHARED.stopped,
	SHARED.interrupted,
	SHARED.value,
	SHARED.running,
	[128, 132, 138],
];

export const LIGHT: Theme = {
	name: "light",
	background: [255, 255, 255],
	stripe: [249, 250, 251],
	text: [28, 32, 36],
	faint: "#60646c",
	line: "#e3e6ea",
	selection: "#0b0d0e",
	path: "#c4006e",
	note: "#8a3ffc",
	match: "#c4187c",
	classes: {
		...SHARED,
		unknown: [176, 180, 186],
		idle: [238, 240, 243],
		blocked: [222, 226, 232],
	},
};

export const DARK: Theme = {
	name: "dark",
	background: [24, 25, 27],
	stripe: [28, 30, 32],
	text: [237, 238, 240],
	faint: "#a0a4ab",
	line: "#363a3f",
	selection: "#ffffff",
	path: "#ff6fb5",
	note: "#be95ff",
	match: "#ff7eb6",
	classes: { ...SHARED, unknown: [84, 88, 95], idle: [34, 37, 40], blocked: [50, 54, 60] },
};

/** A pixel as ImageData has it on all machines that browsers run on. */
export const opaque = (red: number, green: number, blue: number): number =>
	((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;

export const pixel = ([red, green, blue]: Rgb): number => opaque(red, green, blue);

export const css = ([red, green, blue]: Rgb): string => `rgb(${red} ${green} ${blue})`;

/** Far enough apart to tell neighbours, and equally bright, so that white text is legible on all. */
const NAMED: readonly Rgb[] = [
	[0, 114, 178],
	[0, 130, 95],
	[176, 75, 8],
	[155, 78, 128],
	[88, 96, 170],
	[130, 102, 10],
	[10, 122, 138],
	[163, 64, 82],
	[92, 118, 36],
	[112, 84, 158],
	[60, 110, 130],
	[140, 90, 60],
];

/** A number for a name, the same in every trace (FNV-1a). */
export function hashOf(name: string): number {
	let hash = 0x811c9dc5;
	for (let index = 0; index < name.length; index++) {
		hash = Math.imul(hash ^ name.charCodeAt(index), 0x01000193);
	}
	return hash >>> 0;
}

/** The colour of a name: the same in every trace. */
export const colourOf = (name: string): Rgb => NAMED[hashOf(name) % NAMED.length]!;
